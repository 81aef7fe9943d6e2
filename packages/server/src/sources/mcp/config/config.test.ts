import { mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { expand, type Surroundings } from "./expand.ts";
import { readMcpFile } from "./read-mcp-file.ts";
import { resolveEntry } from "./resolve-entry.ts";
import { readServerEntry } from "./server-entry.ts";

let directory: string;
let surroundings: Surroundings;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "toolrack-config-"));
  surroundings = {
    directory,
    environment: { PATH: "/bin", HOST: "example.com", EMPTY: "", UNRELATED: "not for servers" },
    secret: async (name) => (name === "KEY" ? "s3cret" : undefined),
  };
});
afterAll(() => rm(directory, { recursive: true, force: true }));

// biome-ignore-start lint/suspicious/noTemplateCurlyInString: these are the variables of the file, not of the language.
describe("variables", () => {
  it("are replaced in every form that clients write them", async () => {
    const text =
      "${HOST} ${env:HOST} ${NONE:-a:b} ${EMPTY:-filled} ${secret:KEY} ${userHome} ${workspaceFolder} $HOST";
    expect(await expand(text, "x", surroundings)).toBe(
      `example.com example.com a:b filled s3cret ${homedir()} ${directory} $HOST`,
    );
  });

  it("without a value are an error that names the place, and are never sent as they stand", async () => {
    await expect(
      expand("Bearer ${TOKEN}", "mcp.json: docs.headers.Authorization", surroundings),
    ).rejects.toThrow(/mcp\.json: docs\.headers\.Authorization uses \$\{TOKEN\}.*not set/);
    await expect(expand("${constructor}", "here", surroundings)).rejects.toThrow(/constructor is not set/);
    await expect(expand("${secret:NOPE}", "here", surroundings)).rejects.toThrow(/toolrack secrets set NOPE/);
    await expect(expand("${input:key}", "here", surroundings)).rejects.toThrow(/\$\{secret:NAME\}/);
  });
});

describe("an entry", () => {
  it("hands a process only the basics of the environment and what it lists", async () => {
    await writeFile(join(directory, "server.env"), "FROM_FILE=yes\nBOTH=file\n");
    const entry = await readServerEntry({
      command: "server",
      args: ["--host", "${HOST}"],
      env: { KEY: "${secret:KEY}", BOTH: "entry" },
      envFile: "server.env",
    });
    expect(await resolveEntry(entry, "mcp.json: s", surroundings)).toEqual({
      kind: "process",
      roots: [],
      command: "server",
      args: ["--host", "example.com"],
      env: { PATH: "/bin", FROM_FILE: "yes", BOTH: "entry", KEY: "s3cret" },
      cwd: directory,
      install: undefined,
    });
  });

  it("with an address keeps its headers, and is refused when it is none", async () => {
    const entry = await readServerEntry({
      url: "https://${HOST}/mcp",
      headers: { Authorization: "Bearer ${secret:KEY}" },
    });
    const resolved = await resolveEntry(entry, "x", surroundings);
    expect(resolved).toMatchObject({ kind: "address", headers: { Authorization: "Bearer s3cret" } });
    await expect(resolveEntry({ url: "file:///etc/passwd" }, "x", surroundings)).rejects.toThrow(/http/);
  });

  it.each([
    [{}, /neither a command nor a url\. Say how/],
    [{ comand: "x", note: "mine" }, /Did you mean "command" where it says "comand"\?/],
    [{ url: "ftp://example.com" }, /url: It must begin with http:\/\/ or https:\/\//],
    [{ command: "x", toolrack: { oauth: {} } }, /toolrack\.oauth, but no url/],
    [{ url: "https://x", toolrack: { oauth: { clientSecret: "s" } } }, /clientSecret, but no clientId/],
    [{ url: "https://x", toolrack: { oauth: { clientId: "c", clientSecret: "s" } } }, /no issuer\. Name the/],
    [{ url: "https://x", toolrack: { oauth: { grant: "client_credentials" } } }, /needs a clientId and a/],
    [{ url: "https://x", toolrack: { oauth: { grant: "password" } } }, /grant/],
    [{ url: "https://x", toolrack: { oauth: { clientMetadataUrl: "http://x/y" } } }, /must begin with https/],
    [
      {
        url: "https://x",
        toolrack: {
          oauth: {
            grant: "client_credentials",
            clientId: "c",
            clientSecret: "s",
            issuer: "https://y",
            clientMetadataUrl: "https://x/y",
          },
        },
      },
      /Take out the clientMetadataUrl/,
    ],
    [{ command: "a", url: "http://b" }, /both/],
    [{ command: "a", args: "b" }, /args/],
    [{ command: "a", toolrack: { tools: { only: [] } } }, /only/],
    [{ type: "stdio", url: "http://b" }, /no command/],
  ])("that makes no sense is refused: %j", async (given, reason) => {
    await expect(readServerEntry(given)).rejects.toThrow(reason);
  });

  it.each([
    "s3cret",
    { command: "a", env: { KEY: ["s3cret"] } },
    { command: "a", env: "s3cret" },
    { url: "https://x", headers: "Authorization: s3cret" },
    { url: "https://x", toolrack: { oauth: "s3cret" } },
  ])("is refused without what may be a secret: %j", async (given) => {
    const problem = await readServerEntry(given).catch((error: Error) => error.message);
    expect(problem).toMatch(/Expected .*, got (?:string|array)\./);
    expect(problem).not.toContain("s3cret");
  });

  it("is switched off in both spellings", async () => {
    expect(await readServerEntry({ command: "a", disabled: true })).toMatchObject({ enabled: false });
    expect(await readServerEntry({ command: "a", enabled: false })).toMatchObject({ enabled: false });
    expect(await readServerEntry({ url: "http://a", type: "streamableHttp" })).toMatchObject({
      type: "http",
    });
  });
});
// biome-ignore-end lint/suspicious/noTemplateCurlyInString: these are the variables of the file, not of the language.

describe("the file", () => {
  const read = async (text: string) => {
    const path = join(directory, "mcp.json");
    await writeFile(path, text);
    return readMcpFile(path);
  };

  it("is read in the form of most clients and in that of VS Code", async () => {
    const one = await read('{ "mcpServers": { "a_b": { "command": "x" } } } // end');
    expect([...one.entries]).toEqual([["a_b", { command: "x" }]]);
    const other = await read('{ "servers": { "c": { "type": "sse", "url": "http://x", }, }, }');
    expect([...other.entries]).toEqual([["c", { type: "sse", url: "http://x" }]]);
  });

  it("keeps the good entries when others are wrong", async () => {
    const file = await read(
      '{ "mcpServers": { "good": { "command": "x" }, "bad": { "comand": "x" }, "no\\nway": { "command": "x" } } }',
    );
    expect([...file.entries.keys()]).toEqual(["good"]);
    expect(file.problems.get("bad")).toMatch(/"bad" of .*mcp\.json/);
    expect(file.problems.get("no\nway")).toMatch(/cannot be the key/);
    expect([...file.invalid]).toEqual([
      ["bad", { given: { comand: "x" }, reason: file.problems.get("bad") }],
    ]);
  });

  it("takes the keys that other programs take", async () => {
    const keys = ["My Server", "io.github.owner/server", "@scope/pkg", "日历 (工作)", "7", "a".repeat(100)];
    const list = (names: readonly string[]) =>
      JSON.stringify({ mcpServers: Object.fromEntries(names.map((key) => [key, { command: "x" }])) });
    expect([...(await read(list(keys))).entries.keys()].sort()).toEqual(keys.toSorted());
    const wrong = ["", " a", "a ", "-a", "../a", "a\u0007", "a\u202Eb", "a'b", "a".repeat(101)];
    expect((await read(list(wrong))).problems.size).toBe(wrong.length);
  });

  it("that is not there has no servers, and one that is broken says where", async () => {
    expect((await readMcpFile(join(directory, "none.json"))).entries.size).toBe(0);
    await expect(read('{ "mcpServers": {')).rejects.toThrow(/mcp\.json is not valid JSON: line 1/);
    await expect(read("[]")).rejects.toThrow(/"mcpServers"/);
    await symlink(join(directory, "away.json"), join(directory, "link.json"));
    await expect(readMcpFile(join(directory, "link.json"))).rejects.toThrow(/link\.json cannot be read/);
  });
});
