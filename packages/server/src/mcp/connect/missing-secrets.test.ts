import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { openSecrets } from "../../access/secrets.ts";
import { type Serving, serve } from "../../rack/serve.ts";
import { openStore } from "../../store/store.ts";
import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";

vi.setConfig({ testTimeout: 60_000 });

const odd = fileURLToPath(new URL("./testing/odd-server.fixture.mjs", import.meta.url));
const silent = { debug() {}, info() {}, warn() {}, error() {} };
// biome-ignore lint/suspicious/noTemplateCurlyInString: a variable of the entry.
const entry = { command: process.execPath, args: [odd], env: { ODD_VERSION: "${secret:VERSION}" } };

let workspace: TemporaryWorkspace;
let serving: Serving;
beforeEach(async () => {
  vi.stubEnv("TOOLRACK_KEYRING", "off");
  workspace = await TemporaryWorkspace.create({
    "toolrack.config.js": "export default { builtins: false };",
    "mcp.json": JSON.stringify({ mcpServers: { odd: entry } }),
  });
  serving = await serve(workspace.directory, { logger: silent, port: 0 });
});
afterEach(async () => {
  await serving.close();
  await workspace[Symbol.asyncDispose]();
  vi.unstubAllEnvs();
});

/** As another process does it. */
async function setSecret(value: string): Promise<void> {
  const directory = join(workspace.directory, ".toolrack");
  const store = await openStore({ directory });
  await (await openSecrets({ directory, store })).set("VERSION", value);
  await store.close();
}

async function ask(path: string, method = "GET", body?: object): Promise<Record<string, unknown>> {
  const response = await fetch(serving.url + path, {
    method,
    headers: { authorization: `Bearer ${serving.token}`, "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return (await response.json()) as Record<string, unknown>;
}

async function until(state: string, reason: RegExp): Promise<void> {
  const deadline = Date.now() + 30_000;
  for (;;) {
    const server = await ask("/api/mcp-servers/odd");
    if (server.state === state && reason.test(String(server.reason ?? ""))) return;
    if (Date.now() > deadline) throw new Error(`Never ${state}: ${JSON.stringify(server)}`);
    await delay(20);
  }
}

it("a server starts by itself once the secret that it failed for is set, wherever that is done", async () => {
  await until("failed", /"VERSION", which is not set/);
  expect(await ask("/api/mcp-servers/odd")).toMatchObject({
    reasonCode: "secret_missing",
    reasonDetails: { name: "VERSION", place: expect.stringContaining("odd.env") },
  });
  await setSecret("2099-01-01");
  await until("failed", /answered the handshake with version/);
  expect(await ask("/api/secrets/VERSION", "PUT", { value: "2025-06-18" })).not.toHaveProperty("error");
  await until("ready", /^$/);
});
