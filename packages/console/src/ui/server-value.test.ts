import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type EffectScope, effectScope, nextTick, shallowRef } from "vue";
import { ApiError, eventStream } from "../api/index.ts";
import { type Remote, useRemote, useReread } from "./server-value.ts";

describe("something that is read from the server", () => {
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
    expect(remote.value).toBe("new");
    await second;
  });

  it("is done when a page is left while it is read", async () => {
    const reading = remote.reload();
    scope.stop();
    answers[0]?.reject(new DOMException("gone", "AbortError"));
    await reading;
    expect(remote.error).toBeUndefined();
  });
});

describe("what could not be read", () => {
  const away = () => new ApiError(0, "unreachable", "");
  const error = shallowRef<ApiError>();
  let rereads: number;
  let scope: EffectScope;

  beforeEach(() => {
    vi.useFakeTimers();
    rereads = 0;
    error.value = undefined;
    eventStream.state.value = "open";
    scope = effectScope();
    scope.run(() =>
      useReread(
        () => error.value,
        () => rereads++,
      ),
    );
  });
  afterEach(() => {
    scope.stop();
    eventStream.state.value = "closed";
    vi.useRealTimers();
  });

  async function become(state: "open" | "waiting"): Promise<void> {
    eventStream.state.value = state;
    await nextTick();
  }
  async function fail(failure: ApiError | undefined): Promise<void> {
    error.value = failure;
    await nextTick();
  }

  it("reads at once when the connection is back, and never while it is away", async () => {
    await become("waiting");
    await fail(away());
    await vi.advanceTimersByTimeAsync(60_000);
    expect(rereads).toBe(0);
    await become("open");
    expect(rereads).toBe(1);
  });

  it("reads nothing that did not fail, or that failed for another reason", async () => {
    await become("waiting");
    await become("open");
    await fail(new ApiError(404, "call_not_found", "There is none."));
    await become("waiting");
    await become("open");
    await vi.advanceTimersByTimeAsync(60_000);
    expect(rereads).toBe(0);
  });

  it("waits ever longer between two attempts while the connection holds, and begins anew once one was answered", async () => {
    const waits = [1_000, 2_000, 4_000, 8_000, 15_000, 15_000];
    for (const [done, wait] of waits.entries()) {
      await fail(away());
      await vi.advanceTimersByTimeAsync(wait - 1);
      expect(rereads).toBe(done);
      await vi.advanceTimersByTimeAsync(1);
      expect(rereads).toBe(done + 1);
    }
    await fail(undefined);
    await fail(new ApiError(503, "stopping", "It stops."));
    await vi.advanceTimersByTimeAsync(1_000);
    expect(rereads).toBe(waits.length + 1);
  });

  it("reads nothing for a page that is gone", async () => {
    await fail(away());
    scope.stop();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(rereads).toBe(0);
  });
});
