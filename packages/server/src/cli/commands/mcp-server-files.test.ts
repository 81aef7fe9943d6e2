import { getStaticTOMLValue, parseTOML } from "toml-eslint-parser";
import { describe, expect, it } from "vitest";
import { parse as parseYaml } from "yaml";
import { serversIn } from "./mcp-server-files.ts";

/** The entries of a file by their keys; a server that cannot be taken over by its problem. */
function entriesOf(document: unknown): Record<string, unknown> {
  const found = serversIn(document) ?? [];
  return Object.fromEntries(found.map(({ key, entry, problem }) => [key, problem ?? entry]));
}

function notesOf(document: unknown): string {
  return (serversIn(document) ?? []).flatMap(({ notes = [] }) => notes).join("\n");
}

// biome-ignore-start lint/suspicious/noTemplateCurlyInString: variables of the files, not of this one.
describe("the file of an agent", () => {
  it("opencode: local and remote servers, of both versions", () => {
    const mcp = {
      files: {
        type: "local",
        command: ["npx", "-y", "server-files", "."],
        environment: { KEY: "{env:FILES_KEY}" },
        enabled: false,
        timeout: 5000,
      },
      docs: { type: "remote", url: "https://d.example/mcp", headers: { Authorization: "Bearer {env:DOCS}" } },
      secret: { type: "local", command: ["x"], environment: { KEY: "{file:~/.key}" } },
    };
    expect(entriesOf({ $schema: "https://opencode.ai/config.json", model: "x", mcp })).toEqual({
      files: {
        command: "npx",
        args: ["-y", "server-files", "."],
        env: { KEY: "${FILES_KEY}" },
        enabled: false,
      },
      docs: { url: "https://d.example/mcp", headers: { Authorization: "Bearer ${DOCS}" } },
      secret: expect.stringContaining("{file:…} of opencode"),
    });
    const second = {
      type: "local",
      command: ["a"],
      disabled: true,
      timeout: { startup: 9000, request: 60000 },
    };
    expect(entriesOf({ mcp: { servers: { second } } })).toEqual({
      second: { command: "a", disabled: true, toolrack: { limits: { connect: 9000, call: 60000 } } },
    });
  });

  it("Codex: headers and variables from the environment, times in seconds, lists of tools", () => {
    const text = `
model = "gpt-5"

[mcp_servers.files]
command = "npx"
args = ["-y", "server-files"]
env_vars = ["HOME_KEY", { name = "OTHER" }]
startup_timeout_sec = 20
tool_timeout_sec = 90.5
enabled_tools = ["read", "list"]
disabled_tools = ["list"]

[mcp_servers.files.env]
LOG = "debug"

[mcp_servers."docs site"]
url = "https://d.example/mcp"
bearer_token_env_var = "DOCS_TOKEN"
http_headers = { "X-Team" = "a" }
env_http_headers = { "X-User" = "DOCS_USER" }
enabled = false
scopes = ["read", "write"]
`;
    expect(entriesOf(getStaticTOMLValue(parseTOML(text)))).toEqual({
      files: {
        command: "npx",
        args: ["-y", "server-files"],
        env: { HOME_KEY: "${HOME_KEY}", OTHER: "${OTHER}", LOG: "debug" },
        disabledTools: ["list"],
        toolrack: { limits: { connect: 20_000, call: 90_500 }, tools: { include: ["read", "list"] } },
      },
      "docs site": {
        url: "https://d.example/mcp",
        enabled: false,
        headers: { "X-Team": "a", "X-User": "${DOCS_USER}", Authorization: "Bearer ${DOCS_TOKEN}" },
        toolrack: { oauth: { scope: "read write" } },
      },
    });
  });
});

describe("the file of another gateway", () => {
  it("1MCP: transports, two time limits, variables as a list, and no templates", () => {
    const document = {
      mcpServers: {
        api: {
          transport: "http",
          url: "https://a.example/mcp",
          tags: ["prod"],
          connectionTimeout: 5000,
          requestTimeout: 9000,
        },
        script: {
          command: "python",
          args: ["s.py"],
          env: ["PATH", "MODE=a=b"],
          enabledTools: ["x"],
          restartOnExit: true,
        },
      },
      mcpTemplates: { project: { command: "npx", args: ["{{project.path}}"] } },
    };
    expect(entriesOf(document)).toEqual({
      api: {
        type: "http",
        url: "https://a.example/mcp",
        tags: ["prod"],
        toolrack: { limits: { connect: 5000, call: 9000 } },
      },
      script: {
        command: "python",
        args: ["s.py"],
        env: { PATH: "${PATH}", MODE: "a=b" },
        restartOnExit: true,
        toolrack: { tools: { include: ["x"] } },
      },
      project: expect.stringContaining("template of 1MCP"),
    });
  });

  it("MCPHub: tools that are switched off, its time limit, a connection for each session, and no HTTP APIs", () => {
    const document = {
      mcpServers: {
        maps: {
          type: "stdio",
          command: "npx",
          args: ["maps"],
          owner: "admin",
          options: { timeout: 70000 },
          tools: { "maps-route": { enabled: false }, "maps-find": { enabled: true } },
        },
        api: { type: "openapi", openapi: { url: "https://a.example/openapi.json" } },
      },
      users: [{ username: "admin", password: "x" }],
    };
    expect(entriesOf(document)).toEqual({
      maps: {
        type: "stdio",
        command: "npx",
        args: ["maps"],
        owner: "admin",
        disabledTools: ["route"],
        toolrack: { limits: { call: 70_000 } },
      },
      api: expect.stringContaining("HTTP API"),
    });
    const personal = { command: "x", perSessionClient: true, passthroughHeaders: ["X-Key"] };
    expect(entriesOf({ mcpServers: { personal } })).toMatchObject({
      personal: { toolrack: { isolation: "session" } },
    });
    expect(notesOf({ mcpServers: { personal } })).toContain("{{caller:NAME}}");
  });

  it("mcpo and MetaMCP: their spellings of the type", () => {
    const document = {
      mcpServers: {
        far: { type: "streamable-http", url: "http://127.0.0.1:1/mcp" },
        upper: { type: "STREAMABLE_HTTP", url: "http://127.0.0.1:1/mcp" },
        local: { type: "STDIO", command: "uvx", args: ["mcp-hn"] },
      },
    };
    expect(entriesOf(document)).toEqual({
      far: { type: "streamable-http", url: "http://127.0.0.1:1/mcp" },
      upper: { type: "streamable-http", url: "http://127.0.0.1:1/mcp" },
      local: { type: "stdio", command: "uvx", args: ["mcp-hn"] },
    });
  });

  it("Docker: a catalogue, with secrets for the environment and what is not limited any more", () => {
    const document = parseYaml(`
version: 2
registry:
  search:
    title: Search
    type: server
    image: acme/search@sha256:0123
    command: ["--stdio"]
    volumes: ["/data:/data:ro"]
    user: "1000:1000"
    allowHosts: ["api.example.com:443"]
    env: [{ name: MODE, value: fast }]
    secrets: [{ name: search.api_key, env: SEARCH_API_KEY }]
  docs:
    type: remote
    remote: { transport_type: sse, url: https://d.example/sse, headers: { Authorization: "Bearer $DOCS_TOKEN" } }
    secrets: [{ name: docs.token, env: DOCS_TOKEN }]
  curl: { type: poci, tools: [{ name: curl }] }
  open: { type: server, image: acme/open, env: [{ name: URL, value: "{{open.url}}" }] }
`);
    const start = ["run", "-i", "--rm", "-u", "1000:1000", "-e", "MODE", "-e", "SEARCH_API_KEY"];
    expect(entriesOf(document)).toEqual({
      search: {
        command: "docker",
        args: [...start, "-v", "/data:/data:ro", "acme/search@sha256:0123", "--stdio"],
        env: { MODE: "fast", SEARCH_API_KEY: "${secret:SEARCH_API_KEY}" },
      },
      docs: {
        url: "https://d.example/sse",
        type: "sse",
        headers: { Authorization: "Bearer ${secret:DOCS_TOKEN}" },
      },
      curl: expect.stringContaining("only Docker's gateway"),
      open: expect.stringContaining("{{open.url}}"),
    });
    expect(notesOf(document)).toMatch(/secrets set SEARCH_API_KEY[\s\S]*api\.example\.com:443 only/);
  });

  it("Docker: a profile, whose values fill what the catalogue leaves open", () => {
    const snapshot = {
      server: {
        name: "open",
        type: "server",
        image: "acme/open",
        env: [{ name: "URL", value: "{{open.url}}" }],
      },
    };
    const servers = [
      { type: "image", image: "acme/open:1", config: { url: "https://o.example" }, tools: ["a"], snapshot },
      { type: "image", image: "registry.example/team/plain:2" },
      { type: "registry", source: "https://registry.example/v0/servers/7" },
    ];
    expect(entriesOf({ version: 1, id: "dev", name: "Dev", servers })).toEqual({
      open: {
        command: "docker",
        args: ["run", "-i", "--rm", "-e", "URL", "acme/open"],
        env: { URL: "https://o.example" },
        toolrack: { tools: { include: ["a"] } },
      },
      plain: { command: "docker", args: ["run", "-i", "--rm", "registry.example/team/plain:2"] },
      7: expect.stringContaining("neither an image"),
    });
  });

  it("ToolHive: the export of one server", () => {
    const document = {
      schema_version: "v0.1.0",
      name: "github",
      image: "ghcr.io/acme/github:1",
      transport: "stdio",
      cmd_args: ["stdio"],
      env_vars: { LOG: "info", MCP_TRANSPORT: "stdio" },
      secrets: ["gh,target=GITHUB_TOKEN"],
      permission_profile: { network: { outbound: { allow_host: ["api.github.com"] } } },
      tools_filter: ["get_issue"],
    };
    expect(entriesOf(document)).toEqual({
      github: {
        command: "docker",
        args: ["run", "-i", "--rm", "-e", "LOG", "-e", "GITHUB_TOKEN", "ghcr.io/acme/github:1", "stdio"],
        env: { LOG: "info", GITHUB_TOKEN: "${secret:GITHUB_TOKEN}" },
        toolrack: { tools: { include: ["get_issue"] } },
      },
    });
    expect(notesOf(document)).toContain("permission profile is not taken over");
    expect(
      entriesOf({ name: "far", remote_url: "https://f.example/mcp", transport: "streamable-http" }),
    ).toEqual({
      far: { url: "https://f.example/mcp" },
    });
    expect(entriesOf({ ...document, transport: "sse" })).toEqual({
      github: expect.stringContaining("serves HTTP"),
    });
  });

  it("agentgateway: targets at any depth", () => {
    const document = parseYaml(`
binds:
- port: 3000
  listeners:
  - routes:
    - backends:
      - mcp:
          targets:
          - name: everything
            stdio: { cmd: npx, args: ["@modelcontextprotocol/server-everything"], env: { A: b } }
          - name: near
            mcp: { host: localhost, port: 3001, path: /mcp }
          - name: old
            sse: { host: old.example, port: 443 }
          - name: api
            openapi: { schema: { file: ./a.json }, host: localhost, port: 8080 }
- port: 3002
  listeners: [{ routes: [{ backends: [{ mcp: { targets: [{ name: full, mcp: { host: "https://f.example/x" } }] } }] }] }]
`);
    expect(entriesOf(document)).toEqual({
      everything: { command: "npx", args: ["@modelcontextprotocol/server-everything"], env: { A: "b" } },
      near: { url: "http://localhost:3001/mcp", type: "http" },
      old: { url: "https://old.example:443/sse", type: "sse" },
      api: expect.stringContaining("HTTP API"),
      full: { url: "https://f.example/x", type: "http" },
    });
  });

  it("ContextForge: the gateways of an export, without their encrypted credentials", () => {
    const gateways = [
      { name: "east", url: "https://e.example/mcp", transport: "STREAMABLEHTTP", is_active: true },
      {
        name: "west",
        url: "https://w.example/sse",
        transport: "SSE",
        is_active: false,
        auth_type: "bearer",
        auth_value: "encrypted==",
        passthrough_headers: ["X-Tenant"],
      },
    ];
    const document = { version: "2025-03-26", entities: { tools: [], gateways }, metadata: {} };
    expect(entriesOf(document)).toEqual({
      east: { url: "https://e.example/mcp", type: "http" },
      west: { url: "https://w.example/sse", type: "sse", enabled: false },
    });
    expect(notesOf(document)).toMatch(/credentials \(bearer\) are encrypted[\s\S]*X-Tenant/);
    expect(JSON.stringify(serversIn(document))).not.toContain("encrypted==");
  });
});

it.each([
  [[]],
  [{ a: 1 }],
  [null],
  ["text"],
  [{ mcp: { port: 1 } }],
  [{ mcpServers: [] }],
  [{ name: "an npm package", version: "1.0.0" }],
  [{ targets: [1, null, {}] }],
])("names no servers in %j", (document) => {
  expect(serversIn(document)).toBeUndefined();
});

it.each([
  [{ mcpServers: { a: 5, b: null, c: ["x"] } }],
  [{ mcp_servers: { a: 5 } }],
  [{ registry: { a: null, b: { image: 7, env: [1], secrets: "x" } } }],
  [{ servers: [{ snapshot: 5 }, 7, { image: 1 }] }],
  [{ entities: { gateways: [5, { name: 7 }] } }],
  [{ mcp: { a: { type: "local", command: 7, environment: [] } } }],
  [{ name: "x", image: "y", env_vars: [], secrets: {}, cmd_args: "z" }],
])("reads whatever stands in %j without an error of its own", (document) => {
  expect(() => serversIn(document)).not.toThrow();
});
// biome-ignore-end lint/suspicious/noTemplateCurlyInString: the end of the files.
