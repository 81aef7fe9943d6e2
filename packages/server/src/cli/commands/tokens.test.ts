import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { hashToken } from "../../access/tokens.ts";
import { openStore } from "../../store/store.ts";
import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";
import { runCli } from "../testing/run-cli.ts";

let workspace: TemporaryWorkspace;
beforeAll(async () => {
  workspace = await TemporaryWorkspace.create({ "tools/readme.txt": "" });
});
afterAll(() => workspace[Symbol.asyncDispose]());

const tokens = (...words: string[]) => runCli(["tokens", ...words], { cwd: workspace.directory });

describe("toolrack tokens", { timeout: 180_000 }, () => {
  it("makes a token with scopes, prints it alone and once, lists it and removes it", async () => {
    const made = await tokens("create", "ci", "--tools", "file_*", "note", "--expires", "30d");
    expect(made.code, made.stderr).toBe(0);
    expect(made.stdout).toMatch(/^trk_[\w-]{43}\n$/);
    const store = await openStore({ directory: join(workspace.directory, ".toolrack") });
    const stored = await store.tokens.findByHash(hashToken(made.stdout.trim()));
    await store.close();
    expect(stored).toMatchObject({ name: "ci", scopes: { tools: ["file_*", "note"] } });
    expect(stored!.expiresAt! - stored!.createdAt).toBeGreaterThan(29.9 * 86_400_000);
    const listed = await tokens();
    expect(listed.stdout).toContain("file_* note");
    expect(listed.stdout).not.toContain(made.stdout.trim());
    expect((await tokens("remove", "ci")).code).toBe(0);
    expect(JSON.parse((await tokens("list", "--json")).stdout)).toEqual({ tokens: [] });
  });

  it("makes a token for experts", async () => {
    const made = await tokens("create", "expert", "--experts", "writer", "review-*", "--json");
    expect(JSON.parse(made.stdout)).toMatchObject({ scopes: { experts: ["writer", "review-*"] } });
    expect((await tokens()).stdout).toContain("expert:writer expert:review-*");
    expect((await tokens("remove", "expert")).code).toBe(0);
  });

  it("uses the database that .env names, as the server does", async () => {
    // Nothing listens there.
    await workspace.write(".env", "DATABASE_URL=postgres://ann:pass-of-ann@127.0.0.1:1/db\n");
    const { code, stderr } = await tokens("list");
    await workspace.remove(".env");
    expect(code).toBe(1);
    expect(stderr).toContain("Cannot open the database at postgres://127.0.0.1:1/db");
    expect(stderr).not.toContain("pass-of-ann");
  });

  it("asks for the id when two have one name", async () => {
    const made = await Promise.all([1, 2].map(() => tokens("create", "twin", "--admin", "--json")));
    const [first, second] = made.map(({ stdout }) => JSON.parse(stdout));
    expect(first).toMatchObject({ scopes: { admin: true }, token: expect.stringMatching(/^trk_/) });
    const { code, stderr } = await tokens("remove", "twin");
    expect(code).toBe(1);
    expect(stderr).toContain(second.id);
    expect((await tokens("remove", first.id)).code).toBe(0);
    expect((await tokens("remove", "twin")).code).toBe(0);
  });

  it.each<[number, string, string[]]>([
    [2, "no name", ["create"]],
    [2, "nothing that it may do", ["create", "x"]],
    [2, "tools without a name", ["create", "x", "--tools", ""]],
    [2, "tools of a server without a key", ["create", "x", "--tools", "mcp:"]],
    [2, "a duration without a unit", ["create", "x", "--admin", "--expires", "30"]],
    [2, "an unknown action", ["revoke", "x"]],
    [1, "an unknown one to remove", ["remove", "unknown"]],
  ])("ends with %i for %s", async (code, _, words) => {
    expect((await tokens(...words)).code).toBe(code);
  });
});
