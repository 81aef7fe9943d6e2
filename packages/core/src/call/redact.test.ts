import { describe, expect, it } from "vitest";
import { cpuTime } from "../../../../scripts/cpu-time.ts";
import { redact } from "./redact.ts";

describe("redact", () => {
  it("masks by key what is secret whatever it is, and tokens when they are texts", () => {
    expect(
      redact({
        password: 1234,
        apiKey: "k",
        "api-key": "k",
        Authorization: "Bearer x",
        private_key: ["a"],
        access_token: "t",
        max_tokens: 100,
        token: 5,
        passed: "yes",
        author: "me",
        client_secret: { a: 1 },
        compass: "north",
        bypass: "road",
        secretary: "Ann",
      }),
    ).toEqual({
      password: "[redacted]",
      apiKey: "[redacted]",
      "api-key": "[redacted]",
      Authorization: "[redacted]",
      private_key: "[redacted]",
      access_token: "[redacted]",
      max_tokens: 100,
      token: 5,
      passed: "yes",
      author: "me",
      client_secret: "[redacted]",
      compass: "north",
      bypass: "road",
      secretary: "Ann",
    });
    expect(redact({ password: "", secret: null, hasPassword: true })).toEqual({
      password: "[redacted]",
      secret: null,
      hasPassword: true,
    });
  });

  it("masks secret values anywhere, but not ones too short to be secrets", () => {
    expect(redact({ a: ["x s3cret y"], b: "abc" }, { values: ["s3cret", "abc"] })).toEqual({
      a: ["x [redacted] y"],
      b: "abc",
    });
  });

  it("masks credentials inside texts and leaves the rest readable", () => {
    const cases = {
      "postgres://bob:pgpass77@h/db failed": "postgres://bob:[redacted]@h/db failed",
      "redis://:p@ss@h:6379": "redis://:[redacted]@h:6379",
      "http://user:pw@host/?token=abc123&page=2": "http://user:[redacted]@host/?token=[redacted]&page=2",
      "GET /f?X-Amz-Signature=deadbeef&apiKey=k1#top":
        "GET /f?X-Amz-Signature=[redacted]&apiKey=[redacted]#top",
      "Authorization: Bearer sk-live": "Authorization: Bearer [redacted]",
      "authorization: basic letters": "authorization: basic [redacted]",
      "Basic dXNlcjpwYXNz": "Basic [redacted]",
      "Basic rules of http://host:80/a@b?monkey=1&max_tokens=5":
        "Basic rules of http://host:80/a@b?monkey=1&max_tokens=5",
    };
    for (const [text, shown] of Object.entries(cases)) expect(redact(text)).toBe(shown);
    expect(redact(redact(Object.keys(cases)))).toEqual(Object.values(cases));
  });

  it("stays fast on long texts", () => {
    for (const part of ["://a:", "Bearer ", "?key", "&a=b", "://", "basic  "])
      expect(cpuTime(() => redact(part.repeat(50_000)))).toBeLessThan(1_000);
  });

  it("tells which texts were secret, so that they can be masked elsewhere", () => {
    const found = new Set<string>();
    redact(
      {
        password: "hunter2xyz",
        nested: { apiKey: ["KEY-1", 123456] },
        url: "pg://u:pgpass77@h",
        note: "clear",
      },
      { found },
    );
    expect([...found].sort()).toEqual(["123456", "KEY-1", "hunter2xyz", "pgpass77"]);
    found.clear();
    redact("Bearer tokens for /list?sort_key=name, Bearer sk-live-99", { found });
    expect([...found]).toEqual(["sk-live-99"]);
    const tangled: Record<string, unknown> = { text: "knotted" };
    Object.assign(tangled, { a: tangled, b: [tangled, tangled] });
    redact({ secret: tangled }, { found });
    expect([...found]).toEqual(["sk-live-99", "knotted"]);
  });

  it("makes plain JSON of anything", () => {
    expect(redact({ map: new Map([["password", "p"]]), set: new Set([1]) })).toEqual({
      map: { password: "[redacted]" },
      set: [1],
    });
    const circular: Record<string, unknown> = {
      n: 1n,
      f: () => 1,
      s: Symbol("x"),
      d: new Date(0),
      bytes: new Uint8Array(3),
    };
    circular.self = circular;
    expect(redact(circular)).toEqual({
      n: "1",
      f: "[function]",
      s: "[symbol]",
      d: "1970-01-01T00:00:00.000Z",
      bytes: "[3 bytes]",
      self: "[circular]",
    });
    let deep: unknown = 1;
    for (let level = 0; level < 100; level++) deep = { deep };
    expect(JSON.stringify(redact(deep))).toContain("[too deep]");
    expect(
      redact({
        get bad(): never {
          throw new Error("no");
        },
      }),
    ).toBe("[unreadable]");
    expect(redact(JSON.parse('{"__proto__":{"x":1}}'))).toEqual({});
  });
});
