import { cancelled, cancelledBecause, leftBecause, onlyObjects, overMcp } from "./exceptions.ts";
import type { SampleCall } from "./sample-call.ts";

const notJson = `Unexpected token 'a', "add one and two" is not valid JSON`;
const noPermission =
  'The tool "vault" needs the permission "vault:open", which this caller does not hold. It did not run. Ask the operator to grant it, or use another tool.';
const switchedOff = (tool: string) =>
  `The tool "${tool}" is switched off. Use another tool, or ask the operator to enable it.`;
const refused = (why: string) =>
  `Running "wipe" was refused: ${why}. It did not run. Do not repeat the call unchanged.`;

/** Calls that are refused, end early, or that a tool answers with an error. */
export const failedCalls: readonly SampleCall[] = [
  {
    title: "a chain that breaks",
    tool: "thief",
    args: {},
    answer: {
      text: `Tool "vault", called by "thief", failed: ${noPermission}`,
      isError: true,
      code: "execution_failed",
    },
    record: {
      status: "error",
      code: "execution_failed",
      made: [{ tool: "vault", depth: 1, status: "error", code: "permission_denied" }],
    },
  },
  {
    title: "an error that was returned",
    tool: "regret",
    args: {},
    answer: { text: "The shelf is empty. Order first.", isError: true, code: "execution_failed" },
    record: {
      status: "error",
      code: "execution_failed",
      type: "error",
      text: "The shelf is empty. Order first.",
    },
  },
  {
    title: "an error that was returned as MCP says it",
    tool: "regret_as_mcp",
    args: {},
    answer: { text: "The shelf is locked.", isError: true, code: "execution_failed" },
    record: { status: "error", code: "execution_failed", text: "The shelf is locked." },
  },
  {
    title: "an error that was thrown",
    tool: "burst",
    args: {},
    answer: { text: "the disk is on fire", isError: true, code: "execution_failed" },
    record: { status: "error", code: "execution_failed" },
  },
  {
    title: "an error that was foreseen",
    tool: "foresee",
    args: {},
    answer: { text: "There is no paper.", isError: true, code: "business_error" },
    record: { status: "error", code: "business_error" },
  },
  {
    title: "a result that its schema forbids",
    tool: "misfit",
    args: {},
    answer: {
      text: 'The tool "misfit" ran, but its result does not fit its own output schema. length: Expected integer at `length`, got string "long".',
      isError: true,
      code: "execution_failed",
    },
    record: { status: "error", code: "execution_failed" },
  },
  {
    title: "arguments that do not fit",
    tool: "add",
    args: { a: "two" },
    answer: {
      text: 'The arguments for "add" do not fit its schema, so it did not run. Correct these and call again:\n- a: Expected number at `a`, got string "two".',
      isError: true,
      code: "invalid_arguments",
    },
    record: { status: "error", code: "invalid_arguments", parameters: { a: "two" } },
  },
  {
    title: "arguments that are not JSON",
    tool: "add",
    args: "add one and two",
    answer: {
      text: `The arguments for "add" are not valid JSON (${notJson}). The tool did not run. Send one JSON object.`,
      isError: true,
      code: "invalid_arguments",
    },
    record: { status: "error", code: "invalid_arguments", parameters: { raw: "add one and two" } },
    except: onlyObjects(notJson),
  },
  {
    title: "a secret among arguments that do not fit",
    tool: "login",
    args: { user: 5, password: "correct-horse-battery" },
    answer: {
      text: 'The arguments for "login" do not fit its schema, so it did not run. Correct these and call again:\n- user: Expected string at `user`, got number 5.',
      isError: true,
      code: "invalid_arguments",
    },
    record: { code: "invalid_arguments", parameters: { user: 5, password: "[redacted]" } },
  },
  {
    title: "a tool that is not there",
    tool: "ad",
    args: {},
    answer: {
      text: 'There is no tool named "ad". The nearest names are "add".',
      isError: true,
      code: "tool_not_found",
    },
    record: { tool: "ad", status: "error", code: "tool_not_found" },
    except: overMcp({
      reason: "The protocol wants an error of its own for a name that means nothing, and no result.",
      answer: { text: 'There is no tool named "ad". The nearest names are "add".', refusal: -32602 },
      record: "none",
    }),
  },
  {
    title: "a tool that its author switched off",
    tool: "retired",
    args: {},
    answer: { text: switchedOff("retired"), isError: true, code: "tool_disabled" },
    record: { status: "error", code: "tool_disabled" },
  },
  {
    title: "a tool that an operator switched off",
    tool: "switched",
    args: {},
    answer: { text: switchedOff("switched"), isError: true, code: "tool_disabled" },
    record: { status: "error", code: "tool_disabled" },
  },
  {
    title: "a tool that is not approved",
    tool: "wipe",
    args: { disk: "C" },
    answer: { text: refused("the approval rule <rule> denies wipe"), isError: true, code: "approval_denied" },
    record: { status: "error", code: "approval_denied", parameters: { disk: "C" } },
  },
  {
    title: "a permission that is missing",
    tool: "vault",
    args: {},
    answer: { text: noPermission, isError: true, code: "permission_denied" },
    record: { status: "error", code: "permission_denied" },
  },
  {
    title: "a tool that takes too long",
    tool: "slow",
    args: {},
    answer: {
      text: 'The tool "slow" did not finish within 200 ms and was stopped. What it had already done may stand: check before calling it again.',
      isError: true,
      code: "timed_out",
    },
    record: { status: "error", code: "timed_out" },
  },
  {
    title: "a call that is cancelled",
    tool: "wait",
    args: {},
    isCancelled: true,
    answer: { text: 'The call to "wait" was cancelled: enough', isError: true, code: "cancelled" },
    record: { status: "error", outcome: "cancelled", code: "cancelled" },
    except: {
      "command line": {
        reason: "Ctrl-C is how a person cancels.",
        answer: { text: cancelled("interrupted") },
        record: cancelledBecause("interrupted"),
      },
      HTTP: leftBecause("the caller closed the connection"),
      "OpenAI calls": leftBecause("the caller closed the connection"),
      "MCP modern": leftBecause("the client closed the connection"),
      "MCP legacy": { reason: "A client that has cancelled a request is not answered.", answer: "none" },
      "MCP stdio": { reason: "A client that has cancelled a request is not answered.", answer: "none" },
      chat: leftBecause("the caller closed the connection"),
      "another rack": leftBecause("the caller closed the connection"),
    },
  },
];
