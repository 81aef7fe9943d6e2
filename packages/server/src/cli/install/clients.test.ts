import { relative } from "node:path";
import { expect, it } from "vitest";
import {
  clientIds,
  clientPlaces,
  clients,
  isOfRack,
  isSameConnection,
  mergeEntry,
  ownTexts,
  readRackEntry,
} from "./clients.ts";

const words = ["/usr/bin/node", "/opt/toolrack.js", "mcp", "--dir", "/work space"];
const http = { transport: "http", url: "http://127.0.0.1:7300/mcp", token: "trk_abc" } as const;
const filesOf = (...places: Parameters<typeof clientPlaces>) =>
  Object.fromEntries(clientIds.map((id) => [id, clients[id].files(clientPlaces(...places))]));

it("knows where each client's file is on each system", () => {
  expect(filesOf({}, "/home/ada", "linux")).toEqual({
    "claude-desktop": ["/home/ada/.config/Claude/claude_desktop_config.json"],
    "claude-code": ["/home/ada/.claude.json"],
    cursor: ["/home/ada/.cursor/mcp.json"],
    vscode: ["/home/ada/.config/Code/User/mcp.json"],
    codex: ["/home/ada/.codex/config.toml"],
    opencode: ["/home/ada/.config/opencode/opencode.json", "/home/ada/.config/opencode/opencode.jsonc"],
    zed: ["/home/ada/.config/zed/settings.json"],
  });
  const support = "/Users/ada/Library/Application Support";
  expect(filesOf({}, "/Users/ada", "darwin")).toMatchObject({
    "claude-desktop": [`${support}/Claude/claude_desktop_config.json`],
    vscode: [`${support}/Code/User/mcp.json`],
    zed: ["/Users/ada/.config/zed/settings.json"],
  });
  const environment = { APPDATA: "C:\\Users\\ada\\AppData\\Roaming" };
  expect(filesOf(environment, "C:\\Users\\ada", "win32")).toMatchObject({
    "claude-desktop": ["C:\\Users\\ada\\AppData\\Roaming\\Claude\\claude_desktop_config.json"],
    "claude-code": ["C:\\Users\\ada\\.claude.json"],
    vscode: ["C:\\Users\\ada\\AppData\\Roaming\\Code\\User\\mcp.json"],
    zed: ["C:\\Users\\ada\\AppData\\Roaming\\Zed\\settings.json"],
  });
});

it("goes by the variables that the clients go by", () => {
  const set = { XDG_CONFIG_HOME: "/x", CLAUDE_CONFIG_DIR: "/c", CODEX_HOME: "/k" };
  expect(filesOf(set, "/home/ada", "linux")).toMatchObject({
    "claude-desktop": ["/x/Claude/claude_desktop_config.json"],
    "claude-code": ["/c/.claude.json"],
    codex: ["/k/config.toml"],
    opencode: ["/x/opencode/opencode.json", "/x/opencode/opencode.jsonc"],
  });
  // There it goes by none.
  expect(filesOf(set, "/Users/ada", "darwin").zed).toEqual(["/Users/ada/.config/zed/settings.json"]);
  const useless = { XDG_CONFIG_HOME: "", CLAUDE_CONFIG_DIR: "here", CODEX_HOME: "" };
  expect(filesOf(useless, "/home/ada", "linux")).toEqual(filesOf({}, "/home/ada", "linux"));
});

it("writes each client's own shape, and knows it again", () => {
  const command = words[0];
  const args = words.slice(1);
  const headers = { Authorization: "Bearer trk_abc" };
  const { url } = http;
  const shapes = Object.fromEntries(
    clientIds.map((id) => [id, [clients[id].stdio(words), clients[id].http?.(url, http.token)]]),
  );
  expect(shapes).toEqual({
    "claude-desktop": [{ command, args }, undefined],
    "claude-code": [
      { type: "stdio", command, args },
      { type: "http", url, headers },
    ],
    cursor: [
      { command, args },
      { url, headers },
    ],
    vscode: [
      { type: "stdio", command, args },
      { type: "http", url, headers },
    ],
    codex: [
      { command, args },
      { url, http_headers: headers },
    ],
    opencode: [
      { type: "local", command: words, enabled: true },
      { type: "remote", url, headers, enabled: true },
    ],
    zed: [{ source: "custom", command, args }, undefined],
  });
  for (const [started, addressed] of Object.values(shapes)) {
    expect(readRackEntry(started)).toEqual({ transport: "stdio", workspace: "/work space" });
    if (addressed !== undefined) expect(readRackEntry(addressed)).toEqual(http);
  }
});

it("tells entries that lead to a rack from others, and to which", () => {
  const entryOf = (...last: string[]) => ({ command: "npx", args: ["toolrack", ...last] });
  expect(readRackEntry(entryOf("mcp", "--no-watch", "--expert", "mcp", "--dir", "/a"))).toEqual({
    transport: "stdio",
    workspace: "/a",
    expert: "mcp",
  });
  for (const words of [
    ["--dir", "/a", "mcp"],
    ["mcp", "--dir=/a"],
    ["--dir=/b", "mcp", "--dir", "/a"],
  ])
    expect(readRackEntry(entryOf(...words))).toEqual({ transport: "stdio", workspace: "/a" });
  const others = [
    null,
    "x",
    [],
    {},
    { command: "npx", args: ["server"] },
    entryOf("mcp"),
    entryOf("mcp", "--dir"),
    entryOf("mcp", "--dir", "/a", "--more"),
    { command: { path: "x" }, args: [] },
    { url: "http://127.0.0.1:7300/mcp" },
    { url: "http://127.0.0.1:7300/mcp", headers: { Authorization: "Bearer other" } },
    { url: "http://127.0.0.1:7300/api", headers: { Authorization: "Bearer trk_a" } },
  ];
  for (const other of others) expect(readRackEntry(other)).toBeUndefined();

  const rack = { workspace: "/a", addresses: ["http://127.0.0.1:7300"] };
  expect(isOfRack({ transport: "stdio", workspace: "/a/" }, rack)).toBe(true);
  expect(isOfRack({ transport: "stdio", workspace: "/ab" }, rack)).toBe(false);
  // Where a client starts the program for a user, nobody knows.
  expect(isOfRack({ transport: "stdio", workspace: relative(process.cwd(), "/a") }, rack)).toBe(false);
  expect(isOfRack({ transport: "stdio", workspace: "../a" }, { ...rack, startedIn: "/b" })).toBe(true);
  expect(isOfRack({ transport: "stdio", workspace: "../a" }, { ...rack, startedIn: "/b/c" })).toBe(false);
  expect(isOfRack({ ...http, url: "http://127.0.0.1:7300/mcp/writer" }, rack)).toBe(true);
  expect(isOfRack({ ...http, url: "http://127.0.0.1:73001/mcp" }, rack)).toBe(false);
});

it("keeps what the user set beside the connection, and sees when it is switched off", () => {
  const wanted = { command: "node", args: ["a"] };
  expect(isSameConnection({ ...wanted, env: { A: "b" }, timeout: 1 }, wanted)).toBe(true);
  expect(isSameConnection({ ...wanted, disabled: true }, wanted)).toBe(false);
  expect(isSameConnection({ ...wanted, enabled: false }, wanted)).toBe(false);
  expect(isSameConnection({ ...wanted, enabled: true }, wanted)).toBe(true);
  expect(isSameConnection({ ...wanted, args: ["b"] }, wanted)).toBe(false);
  expect(mergeEntry({ command: "old", disabled: true, env: { A: "b" } }, wanted)).toEqual({
    ...wanted,
    env: { A: "b" },
  });
  expect(ownTexts({ ...wanted, env: { A: "b", C: "a" } }, wanted)).toEqual(["b"]);
  // What belongs to a process is refused by some clients beside an address.
  expect(mergeEntry({ url: "u", headers: {}, oauth: {} }, wanted)).toEqual(wanted);
});

it("takes only one of the headers for its own", () => {
  const { url } = http;
  const own = { Authorization: "Bearer trk_new" };
  const mine = { "X-Team": "a", authorization: "Bearer trk_abc" };
  expect(readRackEntry({ url, headers: mine })).toEqual(http);
  expect(isSameConnection({ url, headers: mine }, { url, headers: own })).toBe(true);
  expect(isSameConnection({ url, headers: { "X-Team": "a" } }, { url, headers: own })).toBe(false);
  expect(mergeEntry({ url, headers: mine }, { url, headers: own })).toEqual({
    url,
    headers: { "X-Team": "a", ...own },
  });
  const codex = { url, http_headers: mine, env_http_headers: { "X-Key": "KEY", Authorization: "OTHER" } };
  expect(isSameConnection(codex, { url, http_headers: own })).toBe(false);
  expect(mergeEntry({ ...codex, bearer_token_env_var: "T" }, { url, http_headers: own })).toEqual({
    url,
    http_headers: { "X-Team": "a", ...own },
    env_http_headers: { "X-Key": "KEY" },
  });
});
