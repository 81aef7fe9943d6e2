import { expect, it } from "vitest";
import { readPasted } from "./read-pasted.ts";

const entry = { command: "npx", args: ["-y", "@acme/mcp-server-files@1.2.0", "/data"] };

it.each([
  ["mcpServers", JSON.stringify({ mcpServers: { files: entry } })],
  ["servers, as VS Code has them", JSON.stringify({ inputs: [], servers: { files: entry } })],
  ["servers inside of settings", JSON.stringify({ mcp: { servers: { files: entry } } })],
  ["the entries alone", JSON.stringify({ files: entry })],
  ["entries without braces around them", `"files": ${JSON.stringify(entry)},`],
  [
    "the block of a README",
    `Add it:\n\n\`\`\`json\n{ "mcpServers": { "files": ${JSON.stringify(entry)}, } }\n\`\`\`\n`,
  ],
  ["single quotes", `{ mcpServers: { files: ${JSON.stringify(entry).replaceAll('"', "'")} } }`],
])("reads %s", async (_, text) => {
  expect(await readPasted(text)).toEqual({ ok: true, servers: [{ key: "files", entry }], isNameless: false });
});

it("passes over comments and commas too many, and leaves what is in quotes", async () => {
  const text = `{ // mine
    "mcpServers": { "docs": { "url": "https://docs.example.com/mcp", /* no key yet */ "headers": { "X": "a,}" }, }, },
  }`;
  expect(await readPasted(text)).toMatchObject({
    servers: [{ key: "docs", entry: { url: "https://docs.example.com/mcp", headers: { X: "a,}" } } }],
  });
});

it("takes one entry alone and suggests a name for it", async () => {
  expect(await readPasted(JSON.stringify(entry))).toMatchObject({ servers: [{ entry }], isNameless: true });
  const named = async (given: object) => {
    const read = await readPasted(JSON.stringify(given));
    return read.ok ? read.servers[0]!.key : "";
  };
  expect(await named({ command: "npx", args: ["-y", "@acme/mcp-server-files@1.2.0"] })).toBe("files");
  expect(await named({ url: "https://mcp.linear.app/sse" })).toBe("linear");
});

it("says what is wrong with anything else", async () => {
  expect(await readPasted("  ")).toMatchObject({ problem: "empty" });
  expect(await readPasted("{ nope")).toMatchObject({
    problem: "not-json",
    message: expect.stringMatching(/./),
  });
  expect(await readPasted('{ "name": "x" }')).toMatchObject({ problem: "no-servers" });
  expect(await readPasted("[1]")).toMatchObject({ problem: "no-servers" });
});
