import { expect, it } from "vitest";
import type { Approval } from "../../api/types.ts";
import { reasonOf } from "./reason-of.ts";

const because = (reason?: string) =>
  ({ id: "a", callId: "c", toolName: "t", message: "", input: {}, reason }) as unknown as Approval; // The rest is not read.

it("says what the rack wrote in the language of the console, and what a person wrote in their words", () => {
  const t = (key: string) => `<${key}>`;
  expect(reasonOf(because("the call ended before anybody answered"), t)).toBe("<approvals.callGone>");
  expect(reasonOf(because("the server stopped before anybody answered"), t)).toBe("<approvals.serverGone>");
  expect(reasonOf(because("not today"), t)).toBe("not today");
  expect(reasonOf(because("constructor"), t)).toBe("constructor");
  expect(reasonOf(because(), t)).toBe("");
});
