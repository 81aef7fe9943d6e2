import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";
import { type Json, linesOf, notingTools, repeatedIn, ServerProcess } from "./testing/server-process.ts";

/** Debian's `libfaketime`, which shifts the system's clock for one process, SQLite and worker threads included. */
const library = ["x86_64", "aarch64"]
  .map((machine) => `/usr/lib/${machine}-linux-gnu/faketime/libfaketimeMT.so.1`)
  .find((file) => existsSync(file));
const HOUR = 3_600_000;
const MINUTE = 60_000;

if (library === undefined) console.warn("SKIPPED: jumps of the clock. Install libfaketime to run them.");

describe.skipIf(library === undefined)("the clock jumps", () => {
  let workspace: TemporaryWorkspace;
  let server: ServerProcess;
  let offset = 0;
  /** The ids of `count` calls in the order in which they were made. */
  const made: string[] = [];

  const now = () => Date.now() + offset;
  function jumpTo(milliseconds: number): void {
    offset = milliseconds;
    writeFileSync(
      join(workspace.directory, "clock"),
      `${milliseconds < 0 ? "" : "+"}${milliseconds / 1_000}\n`,
    );
  }
  function start(): Promise<ServerProcess> {
    return ServerProcess.start(workspace.directory, {
      env: {
        LD_PRELOAD: library!,
        FAKETIME_TIMESTAMP_FILE: join(workspace.directory, "clock"),
        FAKETIME_NO_CACHE: "1",
        // No system lets that clock jump.
        FAKETIME_DONT_FAKE_MONOTONIC: "1",
      },
    });
  }
  async function count(): Promise<Json> {
    const { status, body } = await server.call("count", { n: made.length });
    expect(status, JSON.stringify(body)).toBe(200);
    made.push(body.callId);
    return (await server.ask(`/api/calls/${body.callId}`)).body;
  }
  const ticks = () => linesOf(workspace.directory, "ticks.txt");
  const schedule = async (timing: object) =>
    (await server.call("schedule_tool", { action: "create", toolName: "tick", ...timing })).body.result
      .structured.created;

  beforeAll(async () => {
    workspace = await TemporaryWorkspace.create({
      "toolrack.config.js": "export default { builtins: false, retention: { days: 1 } };",
      "tools/all.ts": `${notingTools}
        export const careful = Tool.define({ name: "careful", description: "Asks.", parameters: none, metadata: { dangerous: true }, execute: async () => "done" });`,
    });
    jumpTo(0);
    server = await start();
  });
  afterAll(async () => {
    await server?.[Symbol.asyncDispose]();
    await workspace?.[Symbol.asyncDispose]();
  });

  // Forward, back to where it was, an hour behind, and back again: two jumps in each direction.
  for (const [title, target] of [
    ["by +1 h", HOUR],
    ["by -1 h, to the true time", 0],
    ["by -1 h, into the past", -HOUR],
    ["by +1 h, to the true time", 0],
  ] as const) {
    test(title, async ({ task }) => {
      const isBack = target < offset;
      await schedule({ interval: "every@1s" });
      const before = ticks().length;
      await expect.poll(() => ticks().length).toBeGreaterThan(before);
      const wish = {
        name: `half an hour ${title}`,
        scopes: { tools: ["count"] },
        expiresAt: now() + HOUR / 2,
      };
      const { token } = (await server.ask("/api/tokens", wish)).body;
      expect(token).toMatch(/^trk_/);
      const isTaken = async () => (await server.ask("/api/tools", undefined, { token })).status === 200;
      expect(await isTaken()).toBe(true);
      const begun = performance.now();
      const limited = server.call("endless", {}, { timeout: 4_000 });
      const asked = server.call("careful", {}, { timeout: 20 * MINUTE });
      await expect.poll(async () => (await server.ask("/api/approvals")).body.items.length).toBe(1);
      const first = await count();

      jumpTo(target);

      const atJump = ticks().length;
      await expect.poll(() => ticks().length).toBeGreaterThan(atJump + 1);
      // No burst for what an hour would have been, and each run is a call of its own.
      expect(ticks().length - atJump).toBeLessThan(60);
      expect(repeatedIn(ticks())).toEqual([]);
      const { status } = (await limited).body;
      const took = performance.now() - begun;
      expect(status).toBe("error");
      expect(took).toBeGreaterThan(3_900);
      expect(took).toBeLessThan(60_000);
      expect(await isTaken()).toBe(isBack);

      // A question whose time is over is a denial; one whose time is not can be answered.
      const [question] = (await server.ask("/api/approvals")).body.items;
      if (question !== undefined) await server.ask(`/api/approvals/${question.id}`, { decision: "allow" });
      const { result, error } = (await asked).body;
      expect(result?.content ?? error.code).toBe(isBack ? "done" : "approval_denied");

      // Within a second or so, records carry the time that the clock shows.
      await expect.poll(async () => Math.abs((await count()).timestamp - now())).toBeLessThan(2 * MINUTE);
      expect(first.callId < made.at(-1)!).toBe(true);
      expect(made).toEqual([...made].sort());
      for (const { id } of (await server.ask("/api/schedules")).body.items)
        await server.ask(`/api/schedules/${id}`, undefined, { method: "DELETE" });
      task.meta.figures = {
        "runs of an interval missed for good": 0,
        "limit of 4 s kept after": `${(took / 1_000).toFixed(1)} s`,
        "ids out of order": 0,
      };
    });
  }

  test("and nothing is deleted for it, and the feed stays in order", async () => {
    const feed = await fetch(`${server.ready.url}/api/events`, {
      headers: { authorization: `Bearer ${server.token}` },
    });
    const reader = feed.body!.pipeThrough(new TextDecoderStream()).getReader();
    let read = "";
    for (const target of [HOUR, -HOUR, 0]) {
      jumpTo(target);
      const { callId } = await count();
      while (!read.includes(callId)) read += (await reader.read()).value ?? "";
    }
    await reader.cancel();
    const numbers = [...read.matchAll(/^id: .*?(\d+)$/gm)].map(([, number]) => Number(number));
    expect(numbers.length).toBeGreaterThan(2);
    expect(numbers).toEqual([...numbers].sort((a, b) => a - b));
    // The start deletes what is too old.
    for (const target of [HOUR, -HOUR]) {
      await server.end("SIGTERM");
      jumpTo(target);
      server = await start();
      for (const callId of made) expect((await server.ask(`/api/calls/${callId}`)).status).toBe(200);
    }
  });
});
