import { expect, it } from "vitest";
import { readPasted } from "./server-entry.ts";

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
  expect(await readPasted(text)).toEqual({
    ok: true,
    servers: [{ key: "files", entry }],
    isNameless: false,
    skipped: [],
  });
});

it.each([
  [
    "opencode",
    {
      mcp: {
        files: { type: "local", command: ["npx", "-y", "files"], environment: { KEY: "1" }, enabled: true },
      },
    },
    { command: "npx", args: ["-y", "files"], env: { KEY: "1" }, enabled: true },
  ],
  [
    "opencode, at an address",
    { mcp: { files: { type: "remote", url: "https://x.example/mcp" } } },
    { url: "https://x.example/mcp" },
  ],
  [
    "Gemini",
    { mcpServers: { files: { httpUrl: "https://x.example/mcp" } } },
    { url: "https://x.example/mcp", type: "http" },
  ],
  [
    "Windsurf",
    { mcpServers: { files: { serverUrl: "https://x.example/mcp" } } },
    { url: "https://x.example/mcp" },
  ],
  [
    "Zed",
    { context_servers: { files: { command: { path: "npx", args: ["files"] } } } },
    { command: "npx", args: ["files"] },
  ],
  [
    "an API",
    { apis: { files: { spec: "https://x.example/openapi.json" } } },
    { spec: "https://x.example/openapi.json" },
  ],
  [
    "Toolrack",
    { mcpServers: { files: { toolrack: { install: "files@1.0.0" } } } },
    { toolrack: { install: "files@1.0.0" } },
  ],
])("reads what %s writes", async (_, given, wanted) => {
  const read = await readPasted(JSON.stringify(given));
  expect(read).toMatchObject({ ok: true, skipped: [] });
  expect(read.ok && read.servers).toEqual([{ key: "files", entry: wanted }]);
});

it("leaves what stands among servers to the server, and says what is none", async () => {
  const odd = { start: "files" };
  expect(await readPasted(JSON.stringify({ mcpServers: { files: entry, odd, text: "x" } }))).toMatchObject({
    servers: [
      { key: "files", entry },
      { key: "odd", entry: odd },
    ],
    skipped: ["text"],
  });
  expect(await readPasted(JSON.stringify({ files: entry, odd }))).toMatchObject({
    servers: [{ key: "files" }],
    skipped: ["odd"],
  });
});

it("takes a server that is called mcp for a server", async () => {
  expect(await readPasted(JSON.stringify({ mcp: entry }))).toMatchObject({
    servers: [{ key: "mcp", entry }],
  });
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
  expect(await named({ toolrack: { install: "@acme/mcp-server-files@1.2.0" } })).toBe("files");
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

it.each([
  ["https://shop.com/openapi.json", { spec: "https://shop.com/openapi.json" }, "shop"],
  ["http://127.0.0.1:8080/v3/api-docs", { spec: "http://127.0.0.1:8080/v3/api-docs" }, "api"],
  ["https://mcp.notes.com/mcp", { url: "https://mcp.notes.com/mcp" }, "notes"],
  ["https://docs.io/sse?team=1", { url: "https://docs.io/sse?team=1" }, "docs"],
])(
  "takes an address alone for that of an API, or of a server where it looks like one: %s",
  async (text, entry, key) => {
    const read = await readPasted(` ${text}\n`);
    expect(read).toEqual({
      ok: true,
      servers: [{ key, entry }],
      isNameless: true,
      skipped: [],
      address: text,
    });
  },
);
