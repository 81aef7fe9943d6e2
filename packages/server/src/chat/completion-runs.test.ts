import { expect, it } from "vitest";
import { identify } from "./completion-runs.ts";

it("a request with other credentials of its caller is another request, also with the same token and key", () => {
  const body = { messages: [] };
  const hashOf = (headers: Record<string, string>) =>
    identify({ "idempotency-key": "k", ...headers }, "token", body)?.hash;
  const ann = hashOf({ "x-toolrack-caller-key": "of-ann" });
  expect(ann).not.toBe(hashOf({ "x-toolrack-caller-key": "of-ben" }));
  expect(ann).not.toBe(hashOf({}));
  expect(ann).toBe(hashOf({ "x-toolrack-caller-key": "of-ann", "user-agent": "other" }));
});
