import type { CallClient } from "@toolrack/core";
import { expect, it } from "vitest";
import { answersTo, askWithin, canBeAsked, capabilitiesOf } from "./questions.ts";

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

it("a caller with a form is not asked to open an address", async () => {
  const client: CallClient = { ...formOnly, notify() {}, request: async () => "filled in" };
  const ask = (params: object) =>
    answersTo(
      [["q", { method: "elicitation/create", params }]],
      { method: "tools/call", params: {}, client },
      {
        server: "s",
        roots: [],
        questionTimeout: 1_000,
      },
    );
  expect(await ask({ message: "a" })).toEqual({ q: "filled in" });
  await expect(ask({ mode: "url", url: "https://a" })).rejects.toThrow(
    "cannot be asked (elicitation/create)",
  );
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
