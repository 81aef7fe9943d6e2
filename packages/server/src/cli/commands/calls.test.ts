import { afterAll, beforeAll, expect, it } from "vitest";
import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";
import { runCli } from "../testing/run-cli.ts";
import { spawnCli } from "../testing/spawn-cli.ts";

let workspace: TemporaryWorkspace;
beforeAll(async () => {
  workspace = await TemporaryWorkspace.create({
    "toolrack.config.js": "export default { builtins: false };",
    "tools/crash.ts": `interface Given { readonly list?: string[] }
export const schema = { name: "crash", description: "Fails.", type: "object", properties: {} };
export default async function () {
  const given: Given = {};
  return { content: [{ type: "text", text: given.list!.join() }] };
}`,
    "tools/talk.js": `import { Tool } from "@toolrack/core";
export default Tool.define({
  name: "talk",
  parameters: { type: "object", properties: { who: { type: "string" } } },
  execute: async ({ logger, progress }) => {
    console.log("printed");
    logger.warn("careful \\u001b[31m");
    progress(1, 2, "half way");
    return "done";
  },
});`,
  });
});
afterAll(() => workspace[Symbol.asyncDispose]());

const cli = (...words: string[]) => runCli(words, { cwd: workspace.directory });

it("shows a recorded call with what its tool said", { timeout: 180_000 }, async () => {
  // In a process of its own, where what a tool prints is noted for its call.
  const called = await spawnCli(["call", "talk", "who=Ada", "--json"], { cwd: workspace.directory });
  const { record } = JSON.parse(called.stdout);
  const { stdout } = await cli("calls", "show", record.callId);
  expect(stdout).toMatch(
    /^talk\n.*completed[\s\S]*"who": "Ada"[\s\S]*Log\n.*info +printed\n.*warn +careful \\u001b\[31m\n.*progress +half way \(1\/2\)\n\nResult\ndone\n$/,
  );
  const { call } = JSON.parse((await cli("calls", "show", record.callId, "--json")).stdout);
  expect(call.log).toHaveLength(3);
  const missing = await cli("calls", "show", "none");
  expect([missing.code, missing.stderr]).toEqual([1, expect.stringContaining('There is no call "none"')]);
});

it("says where in its author's file a tool crashed, at the call and in its record", async () => {
  const { stderr } = await cli("call", "crash");
  expect(stderr).toMatch(
    /reading 'join'\)\nTypeError at tools\/crash\.ts:5\n {4}at \S+ \(tools\/crash\.ts:5:\d+\)\n$/,
  );
  const { record, trace } = JSON.parse((await cli("call", "crash", "--json")).stdout);
  expect(trace.at).toBe("tools/crash.ts:5");
  const { stdout } = await cli("calls", "show", record.callId);
  expect(stdout).toMatch(/\n\nTypeError at tools\/crash\.ts:5\n {4}at /);
});
