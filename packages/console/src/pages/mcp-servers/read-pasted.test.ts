import { expect, it } from "vitest";
import { readPasted } from "./read-pasted.ts";

const entry = { command: "npx", args: ["-y", "@acme/mcp-server-files@1.2.0", "/data"] };

it.each([
  ["mcpServers", JSON.stringify({ mcpServers: { files: entry } })],
  ["servers, as VS Code has them", JSON.stringify({ inputs: [], servers: { files: entry } })],
  ["servers inside of settings", JSON.stringify({ mcp: { servers: { files: entry } } })],
  ["the entries alone", JSON.stringify({ files: entry })],
  ["entries without braces around them", `"files": ${JSON.stringify(entry)},`],
])("reads %s", (_, text) => {
  expect(readPasted(text)).toEqual({ ok: true, servers: [{ key: "files", entry }], isNameless: false });
});

it("passes over comments and commas too many, and leaves what is in quotes", () => {
  const text = `{ // mine
    "mcpServers": { "docs": { "url": "https://docs.example.com/mcp", /* no key yet */ "headers": { "X": "a,}" }, }, },
  }`;
  expect(readPasted(text)).toMatchObject({
    servers: [{ key: "docs", entry: { url: "https://docs.example.com/mcp", headers: { X: "a,}" } } }],
  });
});

it("takes one entry alone and suggests a name for it", () => {
  expect(readPasted(JSON.stringify(entry))).toMatchObject({ servers: [{ entry }], isNameless: true });
  const named = (given: object) => {
    const read = readPasted(JSON.stringify(given));
    return read.ok ? read.servers[0]!.key : "";
  };
  expect(named({ command: "npx", args: ["-y", "@acme/mcp-server-files@1.2.0"] })).toBe("files");
  expect(named({ url: "https://mcp.linear.app/sse" })).toBe("linear");
});

it("says what is wrong with anything else", () => {
  expect(readPasted("  ")).toMatchObject({ problem: "empty" });
  expect(readPasted("{ nope")).toMatchObject({ problem: "not-json", message: expect.stringMatching(/./) });
  expect(readPasted('{ "name": "x" }')).toMatchObject({ problem: "no-servers" });
  expect(readPasted("[1]")).toMatchObject({ problem: "no-servers" });
});
