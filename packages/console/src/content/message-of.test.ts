import { expect, it } from "vitest";
import { messageOf } from "./message-of.ts";

const t = (key: string, values: Record<string, unknown>) => `<${[key, ...Object.values(values)].join(" ")}>`;

it("tells a person of a denial in words that are not for a model", () => {
  const denied = (because: string) =>
    messageOf(
      {
        code: "approval_denied",
        message: `Running "wipe" was refused${because}. It did not run. Do not repeat the call unchanged.`,
      },
      t,
    );
  expect(denied(", without giving a reason")).toBe("<errors.denied>");
  expect(denied(": not on a Friday.\nAsk Ann")).toBe("<errors.deniedBecause not on a Friday.\nAsk Ann>");
});

it("leaves every other message as it is", () => {
  const late = 'Nobody answered within 5 min whether "wipe" may run, so it did not run.';
  expect(messageOf({ code: "approval_denied", message: late }, t)).toBe(late);
  expect(messageOf({ code: "execution_failed", message: "no such file" }, t)).toBe("no such file");
});
