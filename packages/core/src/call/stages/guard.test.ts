import { describe, expect, it } from "vitest";
import { z } from "zod";
import { type RackEvent, Tool, ToolRegistry } from "../../index.ts";
import type { ToolMetadata } from "../../tool/types.ts";

function rack(metadata: ToolMetadata = {}, answer: (n: number) => unknown = () => "same") {
  const registry = new ToolRegistry();
  let runs = 0;
  registry.register(
    Tool.define({
      name: "look",
      parameters: z.object({ at: z.string(), page: z.number().optional() }),
      metadata,
      execute: async () => answer(++runs),
    }),
  );
  return { registry, runs: () => runs };
}

const file = (n: number) =>
  ({ type: "file", mime: "image/png", url: `data:image/png;base64,AAA${n}` }) as const;

describe("guard", () => {
  it("nudges at the second identical call, blocks the third, and stops in the end", async () => {
    const { registry, runs } = rack();
    const results = [];
    for (let turn = 0; turn < 6; turn++)
      results.push(await registry.execute("look", { at: "x" }, { sessionID: "s" }));
    expect(results[0]?.content).toBe("same");
    expect(results[1]?.content).toMatch(/^same\n\nLoop notice: 2nd identical call of look/);
    expect(results[1]?.metadata).toMatchObject({ loop: { action: "nudge", signal: "repeat" } });
    expect(results[2]?.error).toMatchObject({ code: "loop_blocked", recoverable: true });
    expect(results[4]?.error).toMatchObject({ code: "loop_blocked", recoverable: false });
    expect(runs()).toBe(2);
    expect(registry.getCallHistory(10)[2]?.flags?.loop).toMatchObject({ action: "block" });
  });

  it("is off without a session and when switched off", async () => {
    const { registry, runs } = rack();
    for (let turn = 0; turn < 9; turn++) await registry.execute("look", { at: "x" });
    expect(runs()).toBe(9);
    const quiet = rack({ loop: false });
    for (let turn = 0; turn < 9; turn++)
      await quiet.registry.execute("look", { at: "x" }, { sessionID: "s" });
    expect(quiet.runs()).toBe(9);
  });

  it("keeps sessions apart", async () => {
    const { registry, runs } = rack();
    for (let turn = 0; turn < 6; turn++)
      await registry.execute("look", { at: "x" }, { sessionID: `s${turn}` });
    expect(runs()).toBe(6);
  });

  it("never holds back a call whose result changes", async () => {
    const { registry, runs } = rack({}, (n) => `page ${n} of many`);
    for (let turn = 0; turn < 20; turn++) await registry.execute("look", { at: "x" }, { sessionID: "s" });
    expect(runs()).toBe(20);
  });

  const image = (data: string) => ({ type: "image", data, mimeType: "image/png" });
  const link = (n: number) => ({ type: "resource_link", uri: `file:///${n}`, name: "x" });
  it.each<[string, (n: number) => unknown]>([
    [
      "an attachment",
      (n) => ({
        content: "screenshot",
        type: "text",
        attachments: [{ type: "file", mime: "image/png", url: `data:image/png;base64,AAA${n}` }],
      }),
    ],
    ["bytes", (n) => new Uint8Array([1, 2, n])],
    ["an image of an MCP result", (n) => ({ content: [{ type: "text", text: "done" }, image(`AAA${n}`)] })],
    [
      "a block that text and attachments cannot rebuild",
      (n) => ({ content: [{ type: "text", text: "done", annotations: {} }, link(n)] }),
    ],
    ["the structured form of a text", (n) => ({ content: "done", type: "text", structured: { n } })],
    ["the structured form of a JSON result", (n) => ({ content: "done", type: "json", structured: { n } })],
    [
      "the structured form of an MCP result",
      (n) => ({ content: [{ type: "text", text: "done" }], structuredContent: { n } }),
    ],
    ["an error that carries more than its text", (n) => ({ success: false, error: "no", left: n })],
    ["a long attachment of a long text", (n) => ({ output: "y".repeat(60_000), attachments: [file(n)] })],
    ["a byte count that looks like a time", (n) => ({ downloaded: 1_500_000_000 + n * 7_777_777 })],
    ["a balance that looks like a time", (n) => `balance: ${1_612_345_678 + n * 91}`],
    ["a countdown", (n) => `running, ${80 - n * 10} seconds left`],
    ["nothing but a duration", (n) => `took ${80 - n * 10} ms`],
  ])("never holds back a call whose result changes only in %s", async (_name, answer) => {
    const { registry, runs } = rack({ readOnly: true }, answer);
    const seen = [];
    for (let turn = 0; turn < 7; turn++)
      seen.push((await registry.execute("look", { at: "x" }, { sessionID: "s" })).metadata?.loop);
    expect(runs()).toBe(7);
    expect(seen.slice(0, 2)).toEqual([undefined, undefined]);
    for (let turn = 0; turn < 3; turn++) await registry.execute("look", { at: "x" });
    expect(registry.detectDoomLoop("")).toMatchObject({ isDoomLoop: false });
  });

  it.each<[string, (n: number) => string]>([
    ["times", (n) => `next free slot: 2024-01-0${n}T1${n}:00:00Z`],
    ["times of today", (n) => `next free slot: ${new Date(Date.now() + n * 600_000).toISOString()}`],
    ["UUIDs", (n) => `user 0190163d-8694-739b-aea5-966c26f8ad9${n}`],
    ["numeric ids", (n) => `user ${1_751_364_672 + n * 13}`],
  ])(
    "does not take answers to different arguments for the same when they differ in %s",
    async (_name, answer) => {
      const { registry, runs } = rack({ readOnly: true }, answer);
      for (let turn = 0; turn < 9; turn++)
        await registry.execute("look", { at: `x${turn}` }, { sessionID: "s" });
      expect(runs()).toBe(9);
    },
  );

  it("holds back what repeats also in its attachments and its structured form", async () => {
    const { registry, runs } = rack({ readOnly: true }, () => ({
      content: "done",
      type: "text",
      structured: { at: Date.now(), state: "idle" },
      attachments: [file(1)],
    }));
    for (let turn = 0; turn < 4; turn++) await registry.execute("look", { at: "x" }, { sessionID: "s" });
    expect(runs()).toBe(2);
    for (let turn = 0; turn < 3; turn++) await registry.execute("look", { at: "x" });
    expect(registry.detectDoomLoop("")).toMatchObject({ isDoomLoop: true, signal: "repeat" });
  });

  it("takes one error for the same although the data that comes with it differs with the arguments", async () => {
    const { registry } = rack({ readOnly: true }, (n) => ({ success: false, error: "no such row", n }));
    const results = [];
    for (let turn = 0; turn < 3; turn++)
      results.push(await registry.execute("look", { at: `x${turn}` }, { sessionID: "s" }));
    expect(results[2]?.metadata).toMatchObject({ loop: { action: "nudge", signal: "same_error" } });
  });

  it("a result that cannot be compared is given back all the same", async () => {
    const { registry, runs } = rack({}, () => ({ content: "odd", type: "text", blocks: [null] }));
    for (let turn = 0; turn < 2; turn++)
      expect((await registry.execute("look", { at: "x" }, { sessionID: "s" })).content).toMatch(/^odd/);
    expect(runs()).toBe(2);
  });

  it("remembers the arguments that a person changed, not those that the model sent", async () => {
    const registry = new ToolRegistry({
      approval: {
        decide: ({ input }) =>
          input.at === "wrong" ? { decision: "allow", arguments: { at: "right" } } : "allow",
      },
    });
    registry.register(
      Tool.define({
        name: "look",
        parameters: z.object({ at: z.string() }),
        execute: async () => "same",
      }),
    );
    const call = (at: string) => registry.execute("look", { at }, { sessionID: "s" });
    await call("wrong");
    expect((await call("right")).metadata).toMatchObject({ loop: { action: "nudge", signal: "repeat" } });
    expect((await call("right")).error?.code).toBe("loop_blocked");
    expect(registry.detectDoomLoop("s")).toMatchObject({ isDoomLoop: true, count: 3 });
    registry.resumeSession("s");
    await call("right");
    expect((await call("wrong")).metadata).toMatchObject({ loop: { action: "nudge" } });
  });

  it("gives a declared poll four times the patience", async () => {
    const { registry, runs } = rack({ loop: { repeatable: "poll" } });
    for (let turn = 0; turn < 6; turn++) await registry.execute("look", { at: "x" }, { sessionID: "s" });
    expect(runs()).toBe(6);
  });

  it("compares only the arguments that the tool declared to matter", async () => {
    const { registry, runs } = rack({ loop: { key: ["at"] } });
    for (let page = 0; page < 4; page++)
      await registry.execute("look", { at: "x", page }, { sessionID: "s" });
    expect(runs()).toBe(2);
  });

  it("does not count what a tool calls by program", async () => {
    const { registry, runs } = rack();
    registry.register(
      Tool.define({
        name: "outer",
        parameters: z.object({}),
        execute: async ({ call }) => {
          for (let turn = 0; turn < 10; turn++) await call("look", { at: "x" });
          return "done";
        },
      }),
    );
    expect((await registry.execute("outer", {}, { sessionID: "s" })).content).toBe("done");
    expect(runs()).toBe(10);
  });

  it("nudges for the same refusal over and over, although nothing ran", async () => {
    const { registry } = rack();
    await registry.execute("lok", {}, { sessionID: "s" });
    const second = await registry.execute("lok", {}, { sessionID: "s" });
    expect(second.error?.code).toBe("tool_not_found");
    expect(second.content).toContain("Loop notice");
  });

  it("starts afresh with a new message of the user, and after a stop only when somebody resumes", async () => {
    const { registry, runs } = rack();
    const call = () => registry.execute("look", { at: "x" }, { sessionID: "s" });
    for (let turn = 0; turn < 3; turn++) await call();
    registry.startNewMessage("s");
    expect((await call()).content).toBe("same");
    for (let turn = 0; turn < 6; turn++) await call();
    registry.startNewMessage("s");
    expect((await call()).error?.recoverable).toBe(false);
    registry.resumeSession("s");
    const before = runs();
    expect((await call()).content).toBe("same");
    expect(runs()).toBe(before + 1);
  });

  it("its memory is plain JSON and survives a restart", async () => {
    const first = rack();
    for (let turn = 0; turn < 2; turn++)
      await first.registry.execute("look", { at: "x" }, { sessionID: "s" });
    const stored = JSON.parse(JSON.stringify(first.registry.getLoopState("s")));
    const second = rack();
    second.registry.restoreLoopState("s", stored);
    expect((await second.registry.execute("look", { at: "x" }, { sessionID: "s" })).error?.code).toBe(
      "loop_blocked",
    );
  });

  it("goes on with a state that was stored before entries had marks", async () => {
    const first = rack();
    for (let turn = 0; turn < 2; turn++)
      await first.registry.execute("look", { at: "x" }, { sessionID: "s" });
    const stored = JSON.parse(
      JSON.stringify(first.registry.getLoopState("s"), (key, value) =>
        key === "argsMark" || key === "resultMark" ? undefined : value,
      ),
    );
    const second = rack();
    second.registry.restoreLoopState("s", stored);
    expect((await second.registry.execute("look", { at: "x" }, { sessionID: "s" })).error?.code).toBe(
      "loop_blocked",
    );
  });

  it("forgets calls that the provider made us repeat", async () => {
    const { registry } = rack();
    await registry.execute("look", { at: "x" }, { sessionID: "s", callId: "a" });
    await registry.execute("look", { at: "x" }, { sessionID: "s", callId: "b" });
    registry.rollbackCalls("s", ["a", "b"]);
    expect((await registry.execute("look", { at: "x" }, { sessionID: "s" })).content).toBe("same");
  });

  it("detectDoomLoop sees the loop of a session that the guard is already holding back", async () => {
    const { registry } = rack();
    for (let turn = 0; turn < 3; turn++) await registry.execute("look", { at: "x" }, { sessionID: "s" });
    expect(registry.detectDoomLoop("s")).toMatchObject({ isDoomLoop: true, signal: "repeat" });
    expect(registry.detectDoomLoop("other")).toMatchObject({ isDoomLoop: false });
  });

  it("detectDoomLoop leaves out tools that are never part of loop detection", async () => {
    const { registry } = rack({ loop: false });
    for (let turn = 0; turn < 5; turn++) await registry.execute("look", { at: "x" }, { sessionID: "s" });
    expect(registry.detectDoomLoop()).toMatchObject({ isDoomLoop: false, action: "none" });
    expect(registry.detectDoomLoop("s")).toMatchObject({ isDoomLoop: false, action: "none" });
  });

  it("detectDoomLoop judges every session by itself and answers with the one that is worst off", async () => {
    const { registry } = rack();
    const call = (sessionID?: string) =>
      registry.execute("look", { at: "x" }, sessionID === undefined ? {} : { sessionID });
    for (const sessionID of ["a", "b", "c", undefined]) await call(sessionID);
    expect(registry.detectDoomLoop()).toMatchObject({ isDoomLoop: false, action: "none" });
    await call("b");
    await call("b");
    await call("a");
    expect(registry.detectDoomLoop()).toMatchObject({ isDoomLoop: true, action: "block", count: 3 });
    expect(registry.detectDoomLoop("a")).toMatchObject({ isDoomLoop: false, action: "nudge" });
    expect(registry.detectDoomLoop("")).toMatchObject({ action: "none" });
  });

  it("detectDoomLoop tells large arguments apart although only their beginning is kept", async () => {
    const { registry } = rack({ readOnly: true });
    for (let turn = 0; turn < 5; turn++) await registry.execute("look", { at: "x".repeat(200_000) + turn });
    expect(registry.detectDoomLoop()).toMatchObject({ isDoomLoop: false });
  });

  it("forgets the session that was quiet longest, not the one that began first", async () => {
    const { registry } = rack();
    const call = (sessionID: string) => registry.execute("look", { at: "x" }, { sessionID });
    await call("old but busy");
    await call("old and quiet");
    for (let index = 0; index < 9_999; index++) {
      if (index === 5_000) registry.restoreLoopState("old but busy", registry.getLoopState("old but busy"));
      await call(`s${index}`);
    }
    expect(registry.getLoopState("old but busy").total).toBe(1);
    expect(registry.getLoopState("old and quiet").total).toBe(0);
  });

  it("counts identical calls of one model turn once", async () => {
    const { registry, runs } = rack();
    const calls = Array.from({ length: 5 }, () =>
      registry.execute("look", { at: "x" }, { sessionID: "s", messageID: "m1" }),
    );
    expect((await Promise.all(calls)).every((result) => result.type === "text")).toBe(true);
    expect(runs()).toBe(5);
  });

  it("reports every verdict to listeners, and a key function that throws lets the call pass", async () => {
    const { registry, runs } = rack();
    const seen: RackEvent[] = [];
    registry.subscribe((event) => seen.push(event));
    for (let turn = 0; turn < 3; turn++) await registry.execute("look", { at: "x" }, { sessionID: "s" });
    const verdicts = seen.flatMap((event) => (event.type === "loop" ? [event.verdict.action] : []));
    expect(verdicts).toEqual(["nudge", "block"]);
    expect(runs()).toBe(2);

    const broken = rack({
      loop: {
        key: () => {
          throw new Error("key");
        },
      },
    });
    for (let turn = 0; turn < 5; turn++)
      await broken.registry.execute("look", { at: "x" }, { sessionID: "s" });
    expect(broken.runs()).toBe(5);
  });
});
