import type { CallClient } from "@toolrack/core";
import { expect, it } from "vitest";
import { askWithin, canAnswer, canBeAsked, capabilitiesOf } from "./questions.ts";

const formOnly = {
  can: (method: string, params: { mode?: string } = {}) =>
    method === "elicitation/create" && (params.mode ?? "form") === "form",
};

it("a server is told which ways of asking a caller has", () => {
  expect(capabilitiesOf(formOnly)).toEqual({ elicitation: { form: {} } });
  expect(capabilitiesOf({ can: () => true })).toEqual({
    elicitation: { form: {}, url: {} },
    sampling: {},
    roots: {},
  });
  expect(capabilitiesOf(undefined)).toEqual({});
  expect([canBeAsked(formOnly), canBeAsked({ can: () => false }), canBeAsked(undefined)]).toEqual([
    true,
    false,
    false,
  ]);
});

it("a caller with a form is not asked to open an address", () => {
  expect(canAnswer(formOnly, "elicitation/create", { message: "a" })).toBe(true);
  expect(canAnswer(formOnly, "elicitation/create", { mode: "url", url: "https://a" })).toBe(false);
});

it("a question that nobody answers ends", async () => {
  const client: CallClient = {
    can: () => true,
    notify() {},
    request: (_method, _params, signal) =>
      new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
  };
  const question = { method: "elicitation/create", params: {}, signals: [] } as const;
  await expect(askWithin(5, client, question)).rejects.toThrow(
    "Nobody answered the question within 0.005 s.",
  );
});
