import { expect, it } from "vitest";
import { toModelMessages } from "./messages.ts";
import type { ToolPart } from "./turn.ts";

const part = (written: string, state: ToolPart["state"]): ToolPart => ({
  type: "tool",
  round: 1,
  id: "call_1",
  callId: "c1",
  name: "write",
  displayName: "write",
  arguments: written,
  state,
});
const toldArguments = (part: ToolPart) =>
  toModelMessages([part], false)[0]?.tool_calls?.[0]?.function?.arguments;

it("of a call that was mended, the model is told what ran", () => {
  const state = {
    status: "completed",
    input: { text: "mended" },
    output: "wrote mended",
    time: { start: 0, end: 1 },
  } as const;
  expect(toldArguments(part("{text: 'mended'", state))).toBe('{"text":"mended"}');
});

it("of a call that could not be mended, nothing is made up", () => {
  const state = {
    status: "error",
    input: {},
    error: "The arguments are not JSON.",
    time: { start: 0, end: 1 },
  } as const;
  expect(toldArguments(part("{text: ", state))).toBe("{}");
});

it("of a call of a skill's tool, the model is told in an envelope whether it succeeded", () => {
  const time = { start: 0, end: 1 };
  const told = (state: ToolPart["state"]) =>
    toModelMessages([{ ...part("{}", state), envelope: true }], false)[1]?.content;
  const done = { status: "completed", input: {}, time } as const;
  expect(told({ ...done, output: '{"sum":5}' })).toBe('{"success":true,"data":{"sum":5}}');
  expect(told({ ...done, output: "words" })).toBe('{"success":true,"data":"words"}');
  expect(told({ ...done, output: '{"success":true,"data":1}' })).toBe('{"success":true,"data":1}');
  expect(told({ status: "error", input: {}, error: "no", time })).toBe('{"success":false,"error":"no"}');
});
