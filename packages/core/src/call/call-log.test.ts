import { describe, expect, it } from "vitest";
import { type RackEvent, Tool, ToolRegistry } from "../index.ts";
import type { ToolContext } from "../tool/types.ts";
import { logLine } from "./context.ts";

type Run = (context: ToolContext) => unknown;

function rack(run: Run) {
  const written: unknown[][] = [];
  const write =
    (level: string) =>
    (...values: unknown[]) =>
      void written.push([level, ...values]);
  const logger = { debug: write("debug"), info: write("info"), warn: write("warn"), error: write("error") };
  const registry = new ToolRegistry({ logger, secrets: () => ["known-secret"] });
  registry.register(Tool.define({ name: "talk", parameters: {}, execute: async (context) => run(context) }));
  return { registry, written };
}

async function listenTo(run: Run, input: object = {}) {
  const { registry, written } = rack(run);
  const events: RackEvent[] = [];
  registry.subscribe((event) => void events.push(event));
  await registry.execute("talk", input, { callId: "c" });
  const lines = events.filter((event) => event.type === "log");
  return { lines, written, events };
}

describe("what a tool says", () => {
  it("goes to the logger and, as a line of the call, to whoever listens", async () => {
    const { lines, written } = await listenTo(({ logger: { info, warn } }) => {
      info("reading", { page: 2 }, 3);
      warn(new TypeError("no title"));
    });
    expect(written[0]).toEqual(["info", "reading", { page: 2 }, 3]);
    expect(lines).toMatchObject([
      { callId: "c", toolName: "talk", level: "info", text: 'reading {"page":2} 3' },
      { level: "warn", text: "TypeError: no title" },
    ]);
    expect(Math.abs(Date.now() - lines[0]!.at)).toBeLessThan(60_000);
  });

  it("goes to the logger alone while nobody listens", async () => {
    const { registry, written } = rack(({ logger }) => logger.info("alone"));
    await registry.execute("talk", {});
    expect(written).toEqual([["info", "alone"]]);
  });

  it("is told without known secrets and those of the arguments", async () => {
    const run: Run = ({ logger, input, progress }) => {
      logger.info(`with ${input.password} and known-secret`, { apiKey: "k-12345678" });
      progress(1, 2, `as ${input.password}`);
    };
    const { lines, events } = await listenTo(run, { password: "hunter22" });
    expect(lines[0]?.text).toBe('with [redacted] and [redacted] {"apiKey":"[redacted]"}');
    expect(events.find((event) => event.type === "progress")?.update.message).toBe("as [redacted]");
  });

  it("is cut, and only after it was masked", async () => {
    const { lines } = await listenTo(({ logger }) => logger.info(`${"x".repeat(1_995)}known-secret`));
    expect(lines[0]?.text).toBe(`${"x".repeat(1_995)}[reda…`);
  });

  it("is not told once the call has ended, nor when it is nothing", async () => {
    let late: ToolContext | undefined;
    const { lines, written } = await listenTo((context) => {
      late = context;
      context.logger.info("");
    });
    late?.logger.info("late");
    expect(lines).toEqual([]);
    expect(written).toEqual([
      ["info", ""],
      ["info", "late"],
    ]);
  });

  it("may be told by whoever heard it elsewhere, without the logger, and never throws", async () => {
    const odd = Object.defineProperty(new Error("x"), "message", {
      get() {
        throw new Error("odd");
      },
    });
    const { lines, written } = await listenTo((context) => {
      logLine(Object.create(context), "info", "printed");
      logLine(context, "error", odd);
      logLine({}, "info", "of no call");
    });
    expect(lines.map(({ level, text }) => [level, text])).toEqual([
      ["info", "printed"],
      ["error", "[unreadable]"],
    ]);
    expect(written).toEqual([]);
  });
});

describe("the time of a call", () => {
  it("is divided for those who listen: before it ran, the run, and what came after", async () => {
    const { events } = await listenTo(() => "x".repeat(1_000));
    const record = events.find((event) => event.type === "record")!.record;
    expect(record.afterDuration).toBeGreaterThan(0);
    expect(record.afterDuration).toBeLessThan(record.runDuration);
    expect(record.runDuration).toBeLessThan(record.duration);
  });

  it("is not divided where nobody listens", async () => {
    const { registry } = rack(() => "x");
    await registry.execute("talk", {});
    expect(registry.getCallHistory(1)[0]?.afterDuration).toBe(0);
  });
});
