import { describe, expect, it } from "vitest";
import { isInfrastructureFailure } from "./records.ts";

describe("isInfrastructureFailure", () => {
  const endless: { cause?: unknown } = {};
  endless.cause = endless;

  it.each([
    ["a rate limit", Object.assign(new Error("slow down"), { status: 429 }), true],
    ["a failing gateway", Object.assign(new Error("bad gateway"), { statusCode: 502 }), true],
    ["a refused connection", Object.assign(new Error("connect"), { code: "ECONNREFUSED" }), true],
    [
      "a cause deep inside",
      new Error("outer", { cause: new Error("inner", { cause: { status: 503 } }) }),
      true,
    ],
    ["a missing page", Object.assign(new Error("not found"), { status: 404 }), false],
    ["a missing file", Object.assign(new Error("no such file"), { code: "ENOENT" }), false],
    ["a text", "503", false],
    ["nothing", undefined, false],
    ["a cause that is its own cause", endless, false],
  ])("%s", (_name, thrown, expected) => {
    expect(isInfrastructureFailure(thrown)).toBe(expected);
  });

  it("does not throw when a property does", () => {
    const trap = Object.defineProperty({}, "status", {
      get() {
        throw new Error("no");
      },
    });
    expect(isInfrastructureFailure(trap)).toBe(false);
  });
});
