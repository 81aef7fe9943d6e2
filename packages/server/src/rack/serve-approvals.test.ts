import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { TemporaryWorkspace } from "../testing/temporary-workspace.ts";
import { type Serving, serve } from "./serve.ts";

const logger = { debug() {}, info() {}, warn() {}, error() {} };

const tools = `
import { appendFileSync } from "node:fs";
import { Tool } from "@toolrack/core";
const named = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };
export const wipe = Tool.define({ name: "wipe", description: "Wipes.", parameters: named, metadata: { dangerous: true },
  execute: async ({ input, callId }) => { appendFileSync("wiped.txt", callId + " " + input.name + "\\n"); return "wiped " + input.name; } });
export const ponder = Tool.define({ name: "ponder", description: "Asks.", parameters: named,
  execute: async ({ input, ask }) => { await ask("Go on with " + input.name + "?"); return "went on with " + input.name; } });
`;

describe("a server that asks for consent", () => {
  let workspace: TemporaryWorkspace;
  let serving: Serving;

  beforeEach(async () => {
    workspace = await TemporaryWorkspace.create({
      "toolrack.config.js": "export default { builtins: false };",
    });
    await workspace.write("tools/rack.ts", tools.replaceAll('"wiped.txt"', JSON.stringify(wiped())));
    serving = await serve(workspace.directory, { logger, port: 0 });
  });

  afterEach(async () => {
    await serving.close();
    await workspace[Symbol.asyncDispose]();
  });

  const wiped = () => join(workspace.directory, "wiped.txt");

  // biome-ignore lint/suspicious/noExplicitAny: what JSON answers hold is looked at freely in tests.
  async function ask(path: string, body?: object): Promise<{ status: number; body: any }> {
    const response = await fetch(serving.url + path, {
      method: body === undefined ? "GET" : "POST",
      headers: { authorization: `Bearer ${serving.token}`, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: response.status, body: await response.json() };
  }

  const call = (name: string, more: object = {}) =>
    ask(`/api/tools/${name}/calls`, { arguments: { name: "a" }, ...more });

  async function question() {
    await expect.poll(async () => (await ask("/api/approvals")).body.items.length).toBe(1);
    return (await ask("/api/approvals")).body.items[0];
  }

  it("keeps the question over a restart, and makes the call when somebody agrees then", async () => {
    const waiting = call("wipe", { callId: "first" });
    const { id } = await question();
    await serving.close();
    expect((await waiting).body.error.message).toContain("the question stays open");

    serving = await serve(workspace.directory, { logger, port: 0 });
    expect(await question()).toMatchObject({ id, callId: "first", state: "pending" });
    const answered = await ask(`/api/approvals/${id}`, { decision: "allow", arguments: { name: "b" } });
    expect(answered.body).toMatchObject({ state: "allowed", arguments: { name: "b" } });
    await expect.poll(async () => (await ask("/api/calls/first-resumed")).status).toBe(200);
    await expect
      .poll(async () => (await ask("/api/calls/first-resumed")).body)
      .toMatchObject({
        status: "completed",
        replayOf: "first",
        result: { content: expect.stringMatching(/^wiped b\n\n\(A person changed the arguments/) },
      });
    expect(readFileSync(wiped(), "utf8")).toBe("first-resumed b\n");
    expect((await ask(`/api/approvals/${id}`, { decision: "allow" })).status).toBe(409);
  });

  it("refuses edited arguments that do not fit, and keeps the question open", async () => {
    const waiting = call("wipe");
    const { id } = await question();
    const refused = await ask(`/api/approvals/${id}`, { decision: "allow", arguments: { name: 7 } });
    expect(refused.status).toBe(422);
    expect(refused.body.error.details.issues).toMatchObject([{ path: "name" }]);
    expect((await ask(`/api/approvals/${id}`)).body.state).toBe("pending");
    await ask(`/api/approvals/${id}`, { decision: "allow", arguments: { name: "c" } });
    expect((await waiting).body.result.content).toContain("wiped c");
  });

  it("does not take other arguments for a tool that already runs", async () => {
    const waiting = call("ponder");
    const { id, stage, message } = await question();
    expect({ stage, message }).toEqual({ stage: "during", message: "Go on with a?" });
    const refused = await ask(`/api/approvals/${id}`, { decision: "allow", arguments: { name: "b" } });
    expect(refused.status).toBe(400);
    await ask(`/api/approvals/${id}`, { decision: "allow", scope: "always" });
    expect((await waiting).body.result.content).toBe("went on with a");
    // The answer was made a rule, which speaks of such questions too.
    expect((await call("ponder")).body.result.content).toBe("went on with a");
  });
});
