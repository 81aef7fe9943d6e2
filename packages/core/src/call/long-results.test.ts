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

  it("of a call that is cancelled while it is read leaves an error whose text is masked", async () => {
    const registry = rack(() => long);
    const call = registry.execute("tells", {}, { callId: "c", sessionID: "s" });
    // The tool has answered after a few turns, and its text takes many more.
    for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
    expect(registry.cancel("c", `because of ${secret}`)).toBe(true);
    const { type, content } = await call;
    expect([type, content.includes(secret), content.includes("[redacted]")]).toEqual(["error", false, true]);
  });

  it("is told from another by any character, up to a million of them", async () => {
    let n = 0;
    const registry = rack(() => `${long.slice(0, megabyte / 2)}${n++}${long.slice(0, megabyte / 2 - 9)}`);
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
