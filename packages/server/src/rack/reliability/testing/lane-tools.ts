/**
 * Tools of lanes that write to disk what they did and in which process, so that a test can count effects even if a
 * process was killed.
 */
export const laneTools = `
import { appendFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { Tool } from "@toolrack/core";
const note = (file, text) => appendFileSync(process.env.NOTES + "/" + file, text + "\\n");
const parameters = { type: "object", properties: { n: { type: "integer" }, ms: { type: "integer" } }, required: ["n"] };
const work = async ({ input, signal, callId }) => {
  note("begun.txt", input.n);
  signal.addEventListener("abort", () => note("aborted.txt", callId));
  if (input.ms) await sleep(input.ms, undefined, { signal });
  note("ended.txt", input.n);
  return { n: input.n, pid: process.pid };
};
export const once = Tool.define({ name: "once", description: "Counts.", parameters, metadata: { lane: "heavy" }, execute: work });
export const again = Tool.define({ name: "again", description: "Counts.", parameters, metadata: { lane: "heavy", idempotent: true }, execute: work });
export const wide = Tool.define({ name: "wide", description: "Counts.", parameters, metadata: { lane: "wide", idempotent: true }, execute: work });
export const limited = Tool.define({ name: "limited", description: "Counts.", parameters, metadata: { lane: "heavy" },
  execute: async ({ input }) => { note("limited.txt", "begin"); await sleep(input.ms); note("limited.txt", "end"); return 1; } });
export const paced = Tool.define({ name: "paced", description: "Counts.", parameters: { type: "object", properties: {} }, metadata: { lane: "wide" },
  execute: async () => { note("paced.txt", Date.now()); return 1; } });
export const leaf = Tool.define({ name: "leaf", description: "Counts.", parameters: { type: "object", properties: {} }, metadata: { lane: "wide" }, execute: async () => 1 });
export const nest = Tool.define({ name: "nest", description: "Calls another of its lane.", parameters: { type: "object", properties: {} }, metadata: { lane: "wide", timeout: 60_000 },
  execute: async ({ call }) => (await call("leaf", {})).content });
export const here = Tool.define({ name: "here", description: "Runs where it arrives.", parameters: { type: "object", properties: { size: { type: "integer" } } },
  execute: async ({ input }) => ({ pid: process.pid, text: "x".repeat(input.size ?? 1) }) });
export const chain = Tool.define({ name: "chain", description: "Calls others and asks.", parameters: { type: "object", properties: { size: { type: "integer" } } },
  metadata: { lane: "heavy" },
  execute: async ({ input, call, ask, progress, logger, metadata }) => {
    logger.info("first line");
    progress(1, 2, "half");
    metadata({ title: "Chaining", metadata: { step: 1 } });
    await ask("Go on?");
    const child = await call("again", { n: 1 });
    const local = await call("here", { size: input.size });
    const failed = await call("missing", {}).catch((error) => error.code);
    return { pid: process.pid, child: child.structured, local: local.structured.pid, size: local.structured.text.length, failed };
  } });
export const echo = Tool.define({ name: "echo", description: "Gives the text back.", metadata: { lane: "heavy" },
  parameters: { type: "object", properties: { text: { type: "string" } }, required: ["text"] }, execute: async ({ input }) => input.text });
`;
