import { describe, expect, it } from "vitest";
import { toolErrorCodes } from "./codes.ts";
import * as errors from "./tool-error.ts";
import { toToolError } from "./tool-error.ts";

describe("ToolError", () => {
  it("every code has a class of its name", () => {
    for (const [code, { name, recoverable }] of Object.entries(toolErrorCodes)) {
      const Class = (errors as unknown as Record<string, new (message: string) => errors.ToolError>)[name]!;
      const error = new Class("m");
      expect(error).toMatchObject({ code, name, recoverable, message: "m" });
      expect(error.toResponse()).toMatchObject({ name, code, message: "m", recoverable });
      expect(errors.isToolError(error)).toBe(true);
    }
  });

  it("is known by its brand, so that two copies of the package understand each other", () => {
    const brand = { [Symbol.for("toolrack.ToolError")]: true };
    const foreign = Object.assign(new Error("x"), brand, { toResponse: () => ({}) });
    expect(errors.isToolError(foreign)).toBe(true);
    expect(errors.isToolError(Object.assign(new Error("x"), brand))).toBe(false);
    for (const other of [null, undefined, "x", 5, {}, new Error("x")])
      expect(errors.isToolError(other)).toBe(false);
  });

  it("its response is plain JSON, clipped and without secrets", () => {
    const input = {
      password: "p",
      text: "x".repeat(1_000),
      list: Array.from({ length: 80 }, (_, index) => index),
      big: 1n,
    };
    const { details } = new errors.ToolExecutionError("m", {
      toolName: "t",
      input,
      cause: new Error("why"),
      data: { extra: 1 },
    }).toResponse();
    expect(JSON.parse(JSON.stringify(details))).toEqual(details);
    expect(details).toMatchObject({ toolName: "t", cause: "why", extra: 1 });
    expect(details?.input.password).toBe("[redacted]");
    expect(details?.input.text).toMatch(/^x{300}… \(1000 characters\)$/);
    expect(details?.input.list).toHaveLength(51);
    expect(new errors.ToolExecutionError("m", { input: "raw text" }).toResponse().details?.input).toEqual({
      value: "raw text",
    });
  });
});

describe("toToolError", () => {
  it("keeps an error of the tool itself, names one that had no name, and wraps one of a child", () => {
    const own = new errors.BusinessError("rate limit", { toolName: "t" });
    expect(toToolError(own, "t", {})).toBe(own);
    const nameless = new errors.BusinessError("rate limit");
    expect(toToolError(nameless, "t", { a: 1 })).toMatchObject({
      code: "business_error",
      toolName: "t",
      input: { a: 1 },
    });
    const child = new errors.ToolTimeoutError("slow", { toolName: "inner" });
    expect(toToolError(child, "t", {})).toMatchObject({
      code: "execution_failed",
      data: { causeCode: "timed_out" },
      cause: child,
    });
  });

  it("keeps the stack of what was thrown", () => {
    const thrown = new RangeError("far");
    expect(toToolError(thrown, "t", {}).stack).toBe(thrown.stack);
  });

  it("tells the kind of error that was thrown, and that no caller gets around a fault in the tool's code", () => {
    const told = (thrown: unknown) => toToolError(thrown, "t", {}).toResponse();
    expect(told(new TypeError("x is undefined"))).toMatchObject({
      recoverable: false,
      details: { thrown: "TypeError" },
    });
    expect(told(new ReferenceError("y is not defined")).recoverable).toBe(false);
    const unreachable = new TypeError("fetch failed", { cause: new Error("ECONNREFUSED") });
    expect(told(unreachable)).toMatchObject({ recoverable: true, details: { thrown: "TypeError" } });
    const badUrl = Object.assign(new TypeError("Invalid URL"), { code: "ERR_INVALID_URL" });
    expect(told(badUrl).recoverable).toBe(true);
    expect(told(new Error("no such file"))).toMatchObject({ recoverable: true });
    expect(told(new Error("no such file")).details).not.toHaveProperty("thrown");
  });

  it("its response tells the causes of what the tool threw", () => {
    const root = new Error("connect ECONNREFUSED 127.0.0.1:5432");
    const thrown = new Error("Operation failed", { cause: new Error("no database", { cause: root }) });
    const error = toToolError(thrown, "t", {});
    expect(error.cause).toBe(thrown);
    expect(error.toResponse().details?.cause).toBe(
      "no database; caused by connect ECONNREFUSED 127.0.0.1:5432",
    );
    expect(toToolError(new Error("alone"), "t", {}).toResponse().details?.cause).toBe("alone");
    const circle = new Error("a");
    circle.cause = circle;
    expect(toToolError(circle, "t", {}).toResponse().details?.cause).toContain("a");
  });
});
