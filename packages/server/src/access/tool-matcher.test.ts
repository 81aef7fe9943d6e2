import { expect, it } from "vitest";
import { problemOfToolPattern, type RackItem, toolMatcher, upstreamOrigin } from "../config/tool-patterns.ts";

const item = (server: string, tool: string, name = `mcp_${server}_${tool}`): RackItem => ({
  name,
  metadata: { mcp: upstreamOrigin({ server, tool }) },
});

it.each<[pattern: string, server: string, tool: string, fits: boolean]>([
  ["mcp:git", "git", "delete", true],
  ["MCP:git", "git", "delete", true],
  ["mcp:git", "git_admin", "delete", false],
  ["mcp:git", "Git", "delete", false],
  ["mcp:git", "git/x", "delete", false],
  ["mcp:git/delete", "git", "delete", true],
  ["mcp:git/DELETE", "git", "delete", false],
  ["mcp:git/GET", "git", "GET", true],
  ["mcp:git/G*", "git", "get", false],
  ["mcp:git/delete", "git", "delete_all", false],
  ["mcp:git/delete_*", "git", "delete_all", true],
  ["mcp:git/*", "git_admin", "delete", false],
  ["mcp:git/admin_*", "git_admin", "delete", false],
  ["mcp:git/files/*", "git", "files/read", true],
  ["mcp:git/files/*", "git", "read", false],
  ["mcp:@acme/git", "@acme", "git", true],
  ["mcp:@acme/git", "@acme/git", "push", false],
  ["mcp:@acme/git/pu*", "@acme/git", "push", false],
  ["mcp:@acme/git/pu*", "@acme", "git/push", true],
  ["mcp:@acme%2Fgit", "@acme/git", "push", true],
  ["mcp:@acme%2fgit/pu*", "@acme/git", "push", true],
  ["mcp:@acme%2Fgit/pull", "@acme/git", "push", false],
  ["mcp:@acme%2Fgit", "@acme", "git", false],
  ["mcp:My%20Files/read", "My Files", "read", true],
  ["mcp:My Files/read", "My Files", "read", true],
  ["mcp:git/50%", "git", "50%", true],
  ["mcp:a:b (2) + c.d", "a:b (2) + c.d", "x", true],
  ["mcp_git_*", "git_admin", "delete", true],
])("%s is for the server %s and its tool %s: %s", (pattern, server, tool, fits) => {
  expect(toolMatcher([pattern])(item(server, tool))).toBe(fits);
});

it("goes by what the server calls it, whatever it is called on the rack", () => {
  const fits = toolMatcher(["mcp:git/history"]);
  expect(fits(item("git", "history", "mcp_git_log"))).toBe(true);
  expect(fits(item("git", "log", "mcp_git_history"))).toBe(false);
});

it("any of several patterns will do", () => {
  const fits = toolMatcher(["file_*", "mcp:git/log", "mcp:mail"]);
  const found = [{ name: "file_read" }, item("git", "log"), item("mail", "send"), item("git", "delete")];
  expect(found.map(fits)).toEqual([true, true, true, false]);
  expect([toolMatcher([]), toolMatcher()].map((none) => none({ name: "file_read" }))).toEqual([false, false]);
});

it("a tool that only says of itself that it is of a server does not fit", () => {
  const claimed = { server: "git", tool: "log" };
  const fits = toolMatcher(["mcp:git"]);
  expect(fits({ name: "mcp_git_log", metadata: { mcp: claimed } })).toBe(false);
  expect(fits({ name: "mcp:git" })).toBe(false);
  expect(fits({ name: "mcp_git_log", metadata: { mcp: "git" } })).toBe(false);
});

it("where no pattern is for a server, nothing but the name is looked at", () => {
  const named = {
    name: "file_read",
    get metadata(): never {
      throw new Error("It was looked at.");
    },
  };
  expect([toolMatcher(["file_*"])(named), toolMatcher(["web_*"])(named)]).toEqual([true, false]);
});

it.each([
  ["mcp:", /names no MCP server\. Write mcp:KEY/],
  ["mcp:%20", /names no MCP server/],
  ["mcp: ", /begins or ends with a blank/],
  ["mcp:git ", /begins or ends with a blank/],
  [" mcp:git", /begins or ends with a blank/],
  ["mcp:git/log ", /begins or ends with a blank/],
  ["file_* ", /begins or ends with a blank/],
  ["mcp:git#x", /"git#x" cannot be the key of a server/],
  ["mcp:gi%74%", /"gi%74%" cannot be the key of a server/],
  ["mcp:git%20/log", /"git " cannot be the key of a server/],
  ["mcp:%2A", /has no \* or \?/],
  ["mcp:/log", /names no MCP server/],
  ["mcp:*", /Write mcp_\* for the tools of all servers/],
  ["mcp:g?t/log", /has no \* or \?/],
  ["mcp:git/", /names no tool behind the slash\. Write mcp:git for all tools/],
])("%s is refused, and it is said what to write", (pattern, sentence) => {
  expect(problemOfToolPattern(pattern)).toMatch(sentence);
});

it.each(["*", "mcp_*", "mcp:git", "mcp:git/*", "mcp:@acme%2Fgit/a?b", "mcp:gi%74", "file_*"])(
  "%s is a pattern",
  (pattern) => {
    expect(problemOfToolPattern(pattern)).toBeUndefined();
  },
);
