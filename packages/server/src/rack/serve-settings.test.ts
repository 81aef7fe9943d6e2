import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { TemporaryWorkspace } from "../testing/temporary-workspace.ts";
import { type Serving, serve } from "./serve.ts";

const nothing = '{ type: "object", properties: {} }';
const environment =
  '{ type: "object", properties: { TIMEOUT: { type: "number", default: 300 }, PIN: { type: "string", format: "password" } } }';
const files = {
  "toolrack.config.js": "export default { builtins: false };",
  // Contract 1.
  "tools/text/first.js": `module.exports = { name: "first", description: "d", inputSchema: ${nothing}, handler: async (args, ctx) => ({ ...ctx.env }) };`,
  // Contract 2.
  "tools/second.js": `export const schema = { name: "second", description: "d", type: "object", properties: {} };
    export default async (request, ctx) => ({ content: [{ type: "text", text: JSON.stringify(ctx.env) }] });`,
  // Contract 3.
  "tools/third.ts": `import { Tool } from "@toolrack/core";
    export const third = Tool.define({ name: "third", description: "d", parameters: ${nothing},
      metadata: { environment: ${environment} }, execute: async ({ env }) => ({ ...env, length: env.PIN?.length }) });
    export const chain = Tool.define({ name: "chain", description: "d", parameters: ${nothing},
      execute: async ({ call, env }) => ({ own: { ...env }, third: (await call("third", {})).structured }) });
    export const needs = Tool.define({ name: "needs", description: "d", parameters: ${nothing},
      metadata: { environment: { type: "object", properties: { REGION: { type: "string" } }, required: ["REGION"] } },
      execute: async ({ env }) => env.REGION });
    export const rows = Tool.define({ name: "rows", description: "d", parameters: ${nothing},
      execute: async () => ({ rows: 5000, type: "text" }) });`,
  // Contract 5.
  "tools/fifth.tool.js": `module.exports = { getMetadata: () => ({ id: "fifth" }),
    getSchema: () => ({ parameters: ${nothing}, environment: ${environment} }),
    execute() { const { environment } = this.api; return { timeout: environment.get("TIMEOUT"), pin: environment.get("PIN", "").length }; } };`,
};

let workspace: TemporaryWorkspace;
let serving: Serving;
beforeAll(async () => {
  vi.stubEnv("TOOLRACK_KEYRING", "off");
  workspace = await TemporaryWorkspace.create(files);
  const say = () => {};
  serving = await serve(workspace.directory, {
    logger: { debug: say, info: say, warn: say, error: say },
    port: 0,
  });
});
afterAll(async () => {
  await serving.close();
  await workspace[Symbol.asyncDispose]();
  vi.unstubAllEnvs();
});

// biome-ignore lint/suspicious/noExplicitAny: what JSON answers hold is looked at freely in tests.
type Answer = { readonly status: number; readonly body: any };

async function ask(method: string, path: string, body?: object): Promise<Answer> {
  const response = await fetch(serving.url + path, {
    method,
    headers: { authorization: `Bearer ${serving.token}`, "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return { status: response.status, body: await response.json() };
}
const put = (kind: "settings" | "secrets", name: string, value: string) =>
  ask("PUT", `/api/${kind}/${encodeURIComponent(name)}`, { value });
const call = async (tool: string) =>
  (await ask("POST", `/api/tools/${tool}/calls`, { arguments: {} })).body.result;

describe("settings and secrets", { timeout: 120_000 }, () => {
  it("reach tools of every contract that they are set for, and no others", async () => {
    expect((await call("third")).structured).toEqual({ TIMEOUT: "300" });
    for (const tool of ["internal_text_first", "second", "third", "fifth"]) {
      expect((await put("settings", `${tool}/TIMEOUT`, "5000")).status).toBe(200);
      expect((await put("secrets", `${tool}/PIN`, "pin-of-the-tool")).status).toBe(200);
    }
    expect((await call("internal_text_first")).structured).toEqual({ TIMEOUT: "5000", PIN: "[redacted]" });
    expect(JSON.parse((await call("second")).content)).toEqual({ TIMEOUT: "5000", PIN: "[redacted]" });
    expect((await call("third")).structured).toEqual({ TIMEOUT: "5000", PIN: "[redacted]", length: 15 });
    expect((await call("fifth")).structured).toEqual({ timeout: 5000, pin: 15 });
    expect((await call("chain")).structured).toMatchObject({ own: {}, third: { TIMEOUT: "5000" } });
  });

  it("leave the results of other tools as they are", async () => {
    await put("settings", "fifth/TIMEOUT", "5000");
    const { content, type, structured } = await call("rows");
    expect([JSON.parse(content), type, structured]).toEqual([
      { rows: 5000, type: "text" },
      "json",
      { rows: 5000, type: "text" },
    ]);
  });

  it("that are missing are named with the command that sets them", async () => {
    expect((await call("needs")).content).toMatch(/MISSING_ENV_VAR.*toolrack settings set needs REGION/);
    await put("settings", "REGION", "eu");
    expect((await call("needs")).content).toBe("eu");
  });

  it("are told apart: a declared secret is no setting, a short value no secret, a secret never both", async () => {
    expect((await put("settings", "third/PIN", "1234")).body.error).toMatchObject({
      code: "setting_invalid",
      message: expect.stringContaining("toolrack secrets set third PIN"),
    });
    expect((await put("secrets", "third/TIMEOUT", "5000")).body.error).toMatchObject({
      code: "secret_invalid",
      message: expect.stringMatching(/shorter than 8 characters.*toolrack settings set third TIMEOUT/),
    });
    await put("settings", "rows/NOTE", "seen by all");
    await put("secrets", "rows/NOTE", "seen by none");
    const { items } = (await ask("GET", "/api/settings")).body;
    expect(items.map(({ name }: { name: string }) => name)).not.toContain("rows/NOTE");
    expect(items).toContainEqual(expect.objectContaining({ name: "REGION", value: "eu" }));
    expect((await put("settings", "rows/NOTE", "again")).body.error.message).toContain(
      "secrets remove rows NOTE",
    );
    expect((await ask("DELETE", "/api/settings/REGION")).body).toEqual({ name: "REGION" });
    expect((await ask("DELETE", "/api/settings/REGION")).body.error.code).toBe("setting_not_found");
  });

  it("are declared in schemas that are shown as they were written", async () => {
    const { metadata } = (await ask("GET", "/api/tools/fifth")).body;
    expect(metadata.singleFile.environment.properties.PIN).toEqual({ type: "string", format: "password" });
  });
});
