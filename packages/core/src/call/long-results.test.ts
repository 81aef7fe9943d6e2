import { describe, expect, it } from "vitest";
import { Tool, ToolRegistry } from "../index.ts";

const secret = "hunter2-very-secret";
const none = { type: "object", properties: {} } as const;
const megabyte = 1024 * 1024;
const line = "an ordinary line of text\n";
const long = line.repeat(Math.ceil((24 * megabyte) / line.length));

function rack(execute: () => unknown): ToolRegistry {
  const registry = new ToolRegistry({ secrets: () => [secret] });
  registry.register(
    Tool.define({ name: "tells", description: "Tells.", parameters: none, execute: async () => execute() }),
  );
  return registry;
}

/** How often the event loop had a turn until the promise was settled. */
async function turnsUntil(promise: Promise<unknown>): Promise<number> {
  let turns = 0;
  let isDone = false;
  const count = () => {
    turns++;
    if (!isDone) setImmediate(count);
  };
  setImmediate(count);
  await promise;
  isDone = true;
  return turns;
}

describe("a long result", () => {
  it("is read in slices, so that others have their turn", async () => {
    const registry = rack(() => long);
    expect(await turnsUntil(registry.execute("tells"))).toBeGreaterThan(10);
    expect(await turnsUntil(registry.execute("tells", {}, { sessionID: "s" }))).toBeGreaterThan(10);
  });

  it.each([0, 1, secret.length - 1, secret.length])(
    "has a secret masked that begins %d characters before the end of a slice",
    async (before) => {
      const at = 4 * megabyte - before;
      const registry = rack(() => long.slice(0, at) + secret + long.slice(at));
      const { metadata } = await registry.execute("tells", {}, { callId: "c" });
      expect(metadata).toMatchObject({ truncated: { callId: "c" } });
      const page = registry.readResult("c", { offset: at - 10, limit: 100 });
      expect(page?.text).toContain("[redacted]");
      expect(page?.text).not.toContain("hunter2");
    },
  );

  it.each([
    ["a text", (text: string) => text],
    ["a text that looks like JSON", (text: string) => `{ ${text}`],
    ["JSON that the tool wrote", (text: string) => JSON.stringify([text, 1, { text }], undefined, 1)],
  ])("has all secrets masked in slices, in %s", async (_, wrap) => {
    const parts = Array.from({ length: 12 }, (_, n) => long.slice(0, megabyte - n * 7));
    const registry = rack(() => wrap(parts.join(`${secret}${secret.toUpperCase()}`)));
    const call = registry.execute("tells", {}, { callId: "c" });
    expect(await turnsUntil(call)).toBeGreaterThan(10);
    const kept = registry.readResult("c", { limit: 1e9 })?.text;
    expect(kept).toBe(wrap(parts.join("[redacted]")));
  });

  it("has secrets masked in its value too, when the text has none", async () => {
    const registry = rack(() => ({ type: "text", content: long, structured: { it: secret } }));
    const { structured } = await registry.execute("tells");
    expect(structured).toEqual({ it: "[redacted]" });
  });

  it("has secrets masked that became known after it was kept", async () => {
    let secrets = [secret];
    const registry = new ToolRegistry({ secrets: () => secrets });
    const execute = async () => `${long}later-secret`;
    registry.register(Tool.define({ name: "tells", description: "Tells.", parameters: none, execute }));
    await registry.execute("tells", {}, { callId: "c" });
    const end = () => registry.readResult("c", { offset: long.length })?.text;
    expect(end()).toBe("later-secret");
    secrets = [secret, "later-secret"];
    expect(end()).toBe("[redacted]");
  });

  it("made of a large value is its JSON, made and masked in slices, and gives no unmasked value away", async () => {
    const quoted = 'a "quoted" secret\n';
    const rows = (hidden: (secret: string) => string) =>
      Array.from({ length: 60_000 }, (_, n) => ({
        n,
        text: n % 7_000 === 0 ? `it is ${hidden(secret)} or ${hidden(quoted)}` : "an ordinary text, 南京",
        more: { tags: ["a", "b", null], at: n / 8, is: n % 2 === 0, nothing: undefined },
      }));
    const registry = new ToolRegistry({ secrets: () => [secret, quoted] });
    const execute = async () => ({ rows: rows((it) => it), end: "x" });
    registry.register(Tool.define({ name: "tells", description: "Tells.", parameters: none, execute }));
    const inner = async ({ call }: Tool.Context) => (await call("tells")).content.length;
    registry.register(Tool.define({ name: "asks", description: "Asks.", parameters: none, execute: inner }));
    const call = registry.execute("tells", {}, { callId: "c" });
    expect(await turnsUntil(call)).toBeGreaterThan(20);
    const result = await call;
    expect(result.structured).toBeUndefined();
    const kept = registry.readResult("c", { limit: 1e9 })?.text;
    const masked = JSON.stringify({ rows: rows(() => "[redacted]"), end: "x" });
    expect(kept === masked).toBe(true);
    const { content } = await registry.execute("asks", {}, { callId: "d" });
    expect(Number(content)).toBe(JSON.stringify(await execute()).length);
    const [, made] = registry.getCallHistory(2);
    expect(made?.toolName).toBe("asks");
    const nested = registry.getCallHistory(2)[0]!;
    expect(registry.readResult(nested.callId, { limit: 1e9 })?.text === masked).toBe(true);
  });

  it("is masked of the secrets of its arguments where it is kept", async () => {
    const registry = new ToolRegistry();
    registry.register(
      Tool.define({
        name: "dumps",
        parameters: { type: "object", properties: { password: { type: "string" } } },
        execute: async ({ input }) =>
          Array.from({ length: 100_000 }, (_, n) => `${n} by ${n % 99 ? "" : input.password}`),
      }),
    );
    await registry.execute("dumps", { password: "own-password" }, { callId: "c" });
    const kept = registry.readResult("c", { limit: 1e9 })?.text ?? "";
    expect([kept.includes("own-password"), kept.split("[redacted]").length]).toEqual([false, 1_012]);
    expect(JSON.parse(kept)).toHaveLength(100_000);
  });

  it("waits until the one before it was read, so that many at once take the memory of one", async () => {
    const begun: number[] = [];
    let count = 0;
    const registry = rack(() => {
      const call = ++count;
      const text = "x".repeat(1_000);
      const toJSON = () => {
        begun.push(call);
        return text;
      };
      const item = { text, toJSON };
      return Array.from({ length: 4_000 }, () => item);
    });
    await Promise.all([registry.execute("tells"), registry.execute("tells"), registry.execute("tells")]);
    expect(begun).toEqual([...begun].sort((a, b) => a - b));
    expect(new Set(begun).size).toBe(3);
  });

  it("of a call that is cancelled while it is read leaves an error whose text is masked", async () => {
    const registry = rack(() => long);
    const call = registry.execute("tells", {}, { callId: "c", sessionID: "s" });
    // The tool has answered after a few turns, and its text takes many more.
    for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
    expect(registry.cancel("c", `because of ${secret}`)).toBe(true);
    const { type, content } = await call;
    expect([type, content.includes(secret), content.includes("[redacted]")]).toEqual(["error", false, true]);
  });

  it("is told from another by any character, up to a quarter of a million of them", async () => {
    let n = 0;
    const registry = rack(() => `${long.slice(0, megabyte / 8)}${n++}${long.slice(0, megabyte / 8 - 9)}`);
    for (let turn = 0; turn < 4; turn++) {
      const { metadata } = await registry.execute("tells", {}, { sessionID: "s" });
      expect(metadata?.loop).toBeUndefined();
    }
    const same = rack(() => long);
    const verdicts = [];
    for (let turn = 0; turn < 4; turn++)
      verdicts.push((await same.execute("tells", {}, { sessionID: "s" })).metadata?.loop);
    expect(verdicts.some((verdict) => verdict !== undefined)).toBe(true);
    for (let turn = 0; turn < 4; turn++) await same.execute("tells");
    expect(same.detectDoomLoop("")).toMatchObject({ isDoomLoop: true });
  });
});
