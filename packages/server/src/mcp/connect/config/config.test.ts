import { mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readMcpFile } from "./configured-servers.ts";
import { readServerEntry } from "./entry.ts";
import { expand, resolveEntry, type Surroundings } from "./resolve-entry.ts";
import { credentialsIn } from "./secret-values.ts";

let directory: string;
let surroundings: Surroundings;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "toolrack-config-"));
  surroundings = {
    directory,
    environment: { PATH: "/bin", HOST: "example.com", EMPTY: "", UNRELATED: "not for servers" },
    secret: async (name) => (name === "KEY" ? "s3cret" : undefined),
    setting: async (name) => (name === "REGION" ? "eu" : undefined),
  };
});
afterAll(() => rm(directory, { recursive: true, force: true }));

// biome-ignore-start lint/suspicious/noTemplateCurlyInString: these are the variables of the file, not of the language.
describe("values of callers", () => {
  const url = "https://example.com/mcp";

  it("are put in as they are, and nothing in them is a variable", async () => {
    const caller = (name: string) => (name === "TOKEN" ? "${secret:KEY}{{caller:OTHER}}" : undefined);
    const text = "Bearer {{caller:TOKEN}} ${HOST} {{ caller:TOKEN }} ${callerId}";
    const own = "${secret:KEY}{{caller:OTHER}}";
    const all = { ...surroundings, caller, callerId: "one" };
    expect(await expand(text, "x", all)).toBe(`Bearer ${own} example.com ${own} one`);
    await expect(expand(text, "k", surroundings)).rejects.toThrow(/^k uses \{\{caller:TOKEN\}\}/);
  });

  it.each<[object, RegExp]>([
    [{ url: `${url}?key={{caller:KEY}}` }, /may stand in the values of env and headers, and nowhere else/],
    [{ command: "x", args: ["{{caller:KEY}}"] }, /nowhere else/],
    [{ command: "x", cwd: "{{caller:KEY}}" }, /nowhere else/],
    [
      { url, headers: { A: "{{caller:KEY}}" }, toolrack: { isolation: "shared" } },
      /cannot share a connection/,
    ],
    [{ url, headers: { A: "{{caller:a key}}" } }, /a name has letters, digits and _/],
    [{ url, headers: { A: "{{caller:}}" } }, /a name has letters/],
    [{ url, headers: { A: "{{caller:KEY}}" }, toolrack: { oauth: {} } }, /do not go together/],
    [{ command: "x", args: ["${callerId}"] }, /All callers share this server/],
    [{ command: "x", toolrack: { isolation: "user" } }, /toolrack\.isolation/],
    [{ command: "x", toolrack: { isolation: "token", limits: { connections: 0 } } }, /limits\.connections/],
  ])("and isolation are checked when an entry is read: %j", async (entry, problem) => {
    await expect(readServerEntry(entry)).rejects.toThrow(problem);
  });
});

describe("variables", () => {
  it("are replaced in every form that clients write them", async () => {
    const text =
      "${HOST} ${env:HOST} ${NONE:-a:b} ${EMPTY:-filled} ${secret:KEY} ${userHome} ${workspaceFolder} $HOST";
    expect(await expand(text, "x", surroundings)).toBe(
      `example.com example.com a:b filled s3cret ${homedir()} ${directory} $HOST`,
    );
  });

  it("may stand in the default of another one, and are only looked up where it is used", async () => {
    const text =
      "${NONE:-${HOST}} ${HOST:-${TOKEN}} ${NONE:-http://${EMPTY:-${secret:KEY}}/a}} ${NONE:-} ${NONE:-${NONE:-b}c}";
    expect(await expand(text, "x", surroundings)).toBe("example.com example.com http://s3cret/a}  bc");
    await expect(expand("${NONE:-http://h/${TOKEN}}", "a.url", surroundings)).rejects.toThrow(
      /^a\.url uses \$\{TOKEN\}, but the variable TOKEN is not set/,
    );
    const deep = (depth: number) => `${"${NONE:-".repeat(depth)}x${"}".repeat(depth)}`;
    expect(await expand(deep(16), "x", surroundings)).toBe("x");
    await expect(expand(deep(5_000), "a.url", surroundings)).rejects.toThrow(
      /^a\.url has more than 16 defaults/,
    );
  });

  it.each([
    ["${command:pick}", /^k uses \$\{command:pick\}, which only an editor such as VS Code knows/],
    ["${workspaceFolder:api}", /which only an editor such as VS Code knows/],
    ["${NOPE:?need it}", /^k uses \$\{NOPE:\?…\}, a form that is not known here\. Write \$\{NOPE\}/],
    ["${NOPE:+s3cret}", /^k uses \$\{NOPE:\+…\}/],
    ["${NOPE-s3cret}", /^k uses \$\{NOPE-…\}/],
    ["${}", /^k uses \$\{\}, which has no name/],
    ["${env:}", /^k uses \$\{env:\}, which has no name/],
    ["${:-s3cret}", /^k uses \$\{:-…\}, which has no name/],
    ["${secret:KEY:-s3cret}", /a secret has no default\. Write \$\{secret:KEY\}/],
    ["${${HOST}}", /a variable inside the name of another one/],
    ["a${HOST", /^k has a "\$\{" without the "\}" that ends it/],
    ["${NONE:-${HOST}", /^k has a "\$\{" without the "\}" that ends it/],
  ])("in a form that is not known are an error that says what to write: %s", async (text, reason) => {
    const problem = await expand(text, "k", surroundings).catch((error: Error) => error.message);
    expect(problem).toMatch(reason);
    expect(problem).not.toContain("s3cret");
  });

  it("without a value are an error that names the place, and are never sent as they stand", async () => {
    await expect(
      expand("Bearer ${TOKEN}", "mcp.json: docs.headers.Authorization", surroundings),
    ).rejects.toThrow(/mcp\.json: docs\.headers\.Authorization uses \$\{TOKEN\}.*not set/);
    await expect(expand("${constructor}", "here", surroundings)).rejects.toThrow(/constructor is not set/);
    await expect(expand("${secret:NOPE}", "here", surroundings)).rejects.toThrow(/toolrack secrets set NOPE/);
    await expect(expand("${setting:NOPE}", "here", surroundings)).rejects.toThrow(
      /toolrack settings set NOPE=VALUE/,
    );
    expect(await expand("${setting:REGION} ${setting:NOPE:-us}", "here", surroundings)).toBe("eu us");
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

  it("hands a process what leads through a company's proxy, and no token of npm", async () => {
    const kept = {
      HTTPS_PROXY: "http://me:hunter2xyz@proxy.corp:3128",
      no_proxy: "localhost,.corp",
      NODE_EXTRA_CA_CERTS: "/etc/corp.pem",
      SSL_CERT_FILE: "/etc/corp.pem",
      NPM_CONFIG_REGISTRY: "https://npm.corp/",
      "npm_config_@acme:registry": "https://npm.corp/acme/",
      npm_config_cafile: "/etc/corp.pem",
      UV_INDEX_URL: "https://pypi.corp/simple",
    };
    const left = {
      npm_config__auth: "c2VjcmV0",
      "npm_config_//npm.corp/:_authToken": "npm_abcdef",
      NPM_TOKEN: "npm_abcdef",
      NODE_OPTIONS: "--require ./x.js",
      MY_HTTPS_PROXY: "x",
    };
    const company = { ...surroundings, environment: { PATH: "/bin", ...kept, ...left } };
    const entry = await readServerEntry({ command: "npx" });
    const resolved = await resolveEntry(entry, "x", company);
    expect(resolved).toMatchObject({ env: { PATH: "/bin", ...kept } });
    for (const name of Object.keys(left)) expect(resolved).not.toHaveProperty(["env", name]);
    // Of all that, only the password is masked: a masked "localhost,.corp" would spoil what servers say.
    expect(credentialsIn(resolved, entry)).toEqual(["hunter2xyz"]);
    const own = await readServerEntry({ command: "npx", env: { https_proxy: "" } });
    const alone = await resolveEntry(own, "x", company);
    expect(alone).toMatchObject({ env: { https_proxy: "", no_proxy: "localhost,.corp" } });
    expect(alone).not.toHaveProperty("env.HTTPS_PROXY");
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
    [{ toolrack: { install: "@a/b" } }, /^toolrack\.install: "@a\/b" is no .* and version: "@a\/b@1\.2\.3"/],
    [{ toolrack: { install: "a b" } }, /and version: "some-server@1\.2\.3"/],
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

  it("takes numbers and truth values of variables and headers as their text", async () => {
    expect(await readServerEntry({ command: "a", env: { PORT: 3000, DEBUG: true, NAME: "x" } })).toEqual({
      command: "a",
      env: { PORT: "3000", DEBUG: "true", NAME: "x" },
    });
    expect(await readServerEntry({ url: "http://a", headers: { "X-Version": 2 } })).toMatchObject({
      headers: { "X-Version": "2" },
    });
    const long = JSON.parse('{ "command": "a", "env": { "ID": 12345678901234567890 } }');
    await expect(readServerEntry(long)).rejects.toThrow(/^env\.ID: So long a number loses digits/);
    await expect(readServerEntry({ command: "a", env: { ID: null } })).rejects.toThrow(/env\.ID: Expected/);
  });

  it("has the address and the switched off tools of other programs' entries", async () => {
    expect(await readServerEntry({ serverUrl: "https://a/sse" })).toEqual({ url: "https://a/sse" });
    expect(await readServerEntry({ httpUrl: "https://a" })).toEqual({ url: "https://a", type: "http" });
    expect(await readServerEntry({ httpUrl: "https://a", url: "https://a" })).toMatchObject({ type: "http" });
    await expect(readServerEntry({ httpUrl: "https://a", url: "https://b" })).rejects.toThrow(
      /both a url and a httpUrl/,
    );
    await expect(readServerEntry({ httpUrl: "https://a", command: "b" })).rejects.toThrow(
      /both a command and/,
    );
    const given = { command: "a", disabledTools: ["x", "y"], autoApprove: ["z"] };
    expect(await readServerEntry({ ...given, toolrack: { tools: { disable: ["y"], ask: ["w"] } } })).toEqual({
      command: "a",
      toolrack: { tools: { disable: ["y", "x"], ask: ["w"] } },
    });
    await expect(readServerEntry({ ...given, disabledTools: "x" })).rejects.toThrow(/^disabledTools/);
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
    const { entries, problems } = await readMcpFile(path);
    const found = [...entries];
    const valid = new Map(found.flatMap(([key, one]) => ("entry" in one ? [[key, one.entry]] : [])));
    return { entries: valid, invalid: found.filter(([, one]) => "reason" in one), problems };
  };

  it("is read in the form of most clients and in that of VS Code", async () => {
    const one = await read('{ "mcpServers": { "a_b": { "command": "x" } } } // end');
    expect([...one.entries]).toEqual([["a_b", { command: "x" }]]);
    const other = await read('{ "servers": { "c": { "type": "sse", "url": "http://x", }, }, }');
    expect([...other.entries]).toEqual([["c", { type: "sse", url: "http://x" }]]);
  });

  it("takes both forms together, and says what stands in both", async () => {
    const file = await read(
      '{ "servers": { "a": { "command": "other" }, "b": { "command": "y" } }, "mcpServers": { "a": { "command": "x" } } }',
    );
    expect(Object.fromEntries(file.entries)).toEqual({ a: { command: "x" }, b: { command: "y" } });
    expect([...file.problems]).toEqual([
      [
        "servers.a",
        expect.stringMatching(/"a" of .*mcp\.json stands under "mcpServers" and under "servers"/),
      ],
    ]);
    const odd = await read('{ "mcpServers": { "a": { "command": "x" } }, "servers": [] }');
    expect([...odd.entries.keys()]).toEqual(["a"]);
    expect(odd.problems.get("servers")).toMatch(/is no object, and is left out/);
  });

  it("names an entry whose key means something to the language", async () => {
    const file = await read(
      '{ "mcpServers": { "__proto__": { "command": "x" }, "constructor": { "command": "y" } } }',
    );
    expect([...file.entries]).toEqual([["constructor", { command: "y" }]]);
    expect(file.problems.get("__proto__")).toMatch(/"__proto__" cannot be the key/);
  });

  it("keeps the good entries when others are wrong", async () => {
    const file = await read(
      '{ "mcpServers": { "good": { "command": "x" }, "bad": { "comand": "x" }, "no\\nway": { "command": "x" } } }',
    );
    expect([...file.entries.keys()]).toEqual(["good"]);
    expect(file.problems.get("bad")).toMatch(/"bad" of .*mcp\.json/);
    expect(file.problems.get("no\nway")).toMatch(/cannot be the key/);
    expect(file.invalid).toEqual([["bad", { given: { comand: "x" }, reason: file.problems.get("bad") }]]);
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
