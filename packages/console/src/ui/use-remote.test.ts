import { afterEach, beforeEach, expect, it } from "vitest";
import { type EffectScope, effectScope } from "vue";
import { type Remote, useRemote } from "./use-remote.ts";

let scope: EffectScope;
let answers: PromiseWithResolvers<string>[];
let remote: Remote<string>;

beforeEach(() => {
  answers = [];
  scope = effectScope();
  remote = scope.run(() =>
    useRemote(() => {
      const answer = Promise.withResolvers<string>();
      answers.push(answer);
      return answer.promise;
    }),
  )!; // A scope that was just made runs what it is given.
});
afterEach(() => scope.stop());

it("is not done before what replaced it is", async () => {
  const first = remote.reload();
  const second = remote.reload();
  answers[0]?.resolve("old");
  setTimeout(() => answers[1]?.resolve("new"));
  await first;
  expect(remote.value.value).toBe("new");
  await second;
});

it("is done when a page is left while it is read", async () => {
  const reading = remote.reload();
  scope.stop();
  answers[0]?.reject(new DOMException("gone", "AbortError"));
  await reading;
  expect(remote.error.value).toBeUndefined();
});
