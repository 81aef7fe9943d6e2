import type { RackEvent } from "@toolrack/core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ServedRack, toolFile } from "../serve/testing/served-rack.ts";
import { everybody, UpstreamRack } from "./testing/upstream-rack.fixture.ts";

let server: ServedRack;
let rack: UpstreamRack;

beforeAll(async () => {
  server = await ServedRack.open({
    "tools/says.ts": `import { Prompt } from "@toolrack/core";
const say = (client, level) => client?.notify("notifications/message", { level, data: level });
export const prompt = Prompt.define({ name: "says", messages: (_, { client }) => {
  for (const level of ["debug", "info"]) say(client, level);
  return "said";
} });
`,
    "tools/all.ts": toolFile(
      'name: "talks", execute: async ({ logger, progress, client }) => { logger.warn("half", { full: true }); logger.debug("not asked for"); client?.notify("notifications/message", { level: "critical", logger: "disk", data: { free: 0 } }); progress(1, 2, "one of two"); return "done"; }',
    ),
  });
  rack = await UpstreamRack.create();
  const headers = { Authorization: `Bearer ${server.token}` };
  await rack.open({ up: { url: new URL("/mcp", server.serving.url).href, headers } });
}, 60_000);
afterAll(async () => {
  await rack?.[Symbol.asyncDispose]();
  await server?.[Symbol.asyncDispose]();
}, 60_000);

it("what an upstream server logs in the middle of a call is said by that call", async () => {
  await rack.eventually(() => rack.registry.get("mcp_up_talks") !== undefined, "the tool is there");
  const events: RackEvent[] = [];
  const stop = rack.registry.subscribe((event) => void events.push(event));
  const { content } = await rack.call("mcp_up_talks", {}, { callId: "c" });
  stop();
  expect(content).toBe("done");
  const lines = events.filter((event) => event.type === "log");
  expect(lines.map(({ callId, level, text }) => [callId, level, text])).toEqual([
    ["c", "warn", '[talks] half {"full":true}'],
    ["c", "error", '[disk] {"free":0}'],
  ]);
  expect(events.find((event) => event.type === "progress")?.update.message).toBe("one of two");
});

it.each([
  ["debug", ["debug", "info"]],
  ["info", ["info"]],
  // What the caller does not want to hear is still for the server's own log.
  ["error", ["info"]],
  [undefined, ["info"]],
])("a caller that asks for the level %s has an upstream server say %j", async (logLevel, expected) => {
  const listed = async () =>
    (await rack.offerings.prompts(everybody)).some(({ name }) => name === "mcp_up_says");
  await rack.eventually(listed, "the prompt is there");
  const heard: unknown[] = [];
  const client = {
    ...(logLevel === undefined ? {} : { logLevel }),
    can: () => false,
    request: () => Promise.reject(new Error("It cannot be asked.")),
    notify: (_method: string, params: object) => void heard.push((params as { level?: unknown }).level),
  };
  await rack.offerings.getPrompt("mcp_up_says", {}, { ...everybody, client });
  expect(heard).toEqual(expected);
});
