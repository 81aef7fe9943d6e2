import { existsSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { TemporaryWorkspace } from "../testing/temporary-workspace.ts";
import { type Serving, serve } from "./serve.ts";

const quiet = { debug() {}, info() {}, warn() {}, error() {} };
let workspace: TemporaryWorkspace;
let serving: Serving;
beforeAll(async () => {
  workspace = await TemporaryWorkspace.create({
    "toolrack.config.js": "export default { builtins: false };",
    "tools/mode.tool.js": `module.exports = { getMetadata: () => ({ id: "mode" }), getSchema: () => ({ type: "object", properties: {} }),
      getBridges: () => ({ op: { real: () => "real", mock: () => "mock" } }), execute() { return this.api.bridge.execute("op"); } };`,
    "tools/plain.ts": `export const schema = { name: "plain", description: "", type: "object", properties: {} }; export default async () => "ran";`,
  });
  // After this, a start needs no worker to know what the tool is.
  await (await workspace.open()).close();
  await rm(join(workspace.directory, ".toolrack", "sandbox"), { recursive: true });
  serving = await serve(workspace.directory, { logger: quiet, port: 0 });
}, 60_000);
afterAll(async () => {
  await serving.close();
  await workspace[Symbol.asyncDispose]();
});

async function ask(path: string, body?: unknown): Promise<{ status: number; body: Record<string, unknown> }> {
  const response = await fetch(serving.url + path, {
    method: body === undefined ? "GET" : "POST",
    headers: { authorization: `Bearer ${serving.token}`, "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

describe("a server with sandboxed tools", { timeout: 60_000 }, () => {
  it("opens the sandbox before anybody calls one", async () => {
    const folder = join(workspace.directory, ".toolrack", "sandbox");
    await expect.poll(() => existsSync(folder), { timeout: 30_000 }).toBe(true);
  });

  it("says how well they are isolated, and nothing of the kind about others", async () => {
    const { level, reason, code, details } = await serving.app.sandbox();
    const label = level === 3 ? "full" : "reduced";
    expect(code === undefined).toBe(level === 3);
    const why = reason === undefined ? {} : { reason, code, details };
    expect((await ask("/api/tools/mode")).body.isolation).toEqual({ level, label, ...why });
    expect((await ask("/api/tools/plain")).body).not.toHaveProperty("isolation");
  });

  it("makes dry runs of them, and of no others", async () => {
    const dry = await ask("/api/tools/mode/calls", { dryRun: true });
    expect(dry.body.result).toMatchObject({ content: "mock" });
    expect((await ask("/api/tools/mode/calls", {})).body.result).toMatchObject({ content: "real" });
    const refused = await ask("/api/tools/plain/calls", { dryRun: true });
    expect(refused).toMatchObject({
      status: 400,
      body: { error: { code: "invalid_request", message: expect.stringContaining("has no dry run") } },
    });
  });

  it("answers to tool:// references", async () => {
    const name = encodeURIComponent("tool://mode");
    expect((await ask(`/api/tools/${name}`)).body.name).toBe("mode");
    expect((await ask(`/api/tools/${name}/calls`, {})).body).toMatchObject({
      toolName: "mode",
      result: { content: "real" },
    });
  });
});
