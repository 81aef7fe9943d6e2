import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";
import { notingTools, ServerProcess } from "./testing/server-process.ts";

const CLIENTS = 128;
const WARM_UP = 20_000;
/** By then all that keeps the last so many calls or events is full. */
const CALLS_TO_WARM_UP = 30_000;
const MEASURED = 40_000;
const MEGABYTE = 1024 * 1024;

/** Collects garbage inside the server and says what is left: what the process holds goes up and down by tens of MB. */
const heapTool = `
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { Tool } from "@toolrack/core";
setFlagsFromString("--expose-gc");
const gc = runInNewContext("gc");
export const heap = Tool.define({ name: "heap", description: "Bytes in use.", parameters: { type: "object", properties: {} },
  execute: async () => { gc(); return String(process.memoryUsage().heapUsed); } });
`;

test("128 clients for 60 s", async ({ task }) => {
  await using workspace = await TemporaryWorkspace.create({
    "toolrack.config.js": "export default { builtins: false };",
    "tools/all.ts": notingTools,
    "tools/heap.ts": heapTool,
  });
  await using server = await ServerProcess.start(workspace.directory);
  const errors: unknown[] = [];
  let calls = 0;
  let isOver = false;

  async function client(at: number): Promise<void> {
    while (!isOver) {
      const n = calls++;
      // Most make calls over HTTP; some over MCP, some read what was recorded.
      const kind = at % 8;
      const answer = await (kind === 0
        ? server.ask("/api/calls?limit=5")
        : kind === 1
          ? server.callOverMcp("count", { n })
          : server.call("count", { n })
      ).catch((error: unknown) => ({ status: 0, body: error }));
      const isGood =
        answer.status === 200 &&
        (kind === 0 || (kind === 1 ? !answer.body.error : answer.body.recorded === true));
      if (!isGood) errors.push(answer);
      if (errors.length > 100) return;
    }
  }

  const clients = Array.from({ length: CLIENTS }, (_, at) => client(at));
  await sleep(WARM_UP);
  while (calls < CALLS_TO_WARM_UP && errors.length === 0) await sleep(100);
  const samples: (readonly [seconds: number, megabytes: number])[] = [];
  const before = calls;
  const begun = performance.now();
  while (performance.now() - begun < MEASURED) {
    const { result } = (await server.call("heap", {})).body;
    samples.push([(performance.now() - begun) / 1_000, Number(result.content) / MEGABYTE]);
    await sleep(2_000);
  }
  const rate = (calls - before) / ((performance.now() - begun) / 1_000);
  isOver = true;
  await Promise.all(clients);
  const slope = slopeOf(samples);
  const growth = (slope * MEASURED) / 1_000 / samples.at(-1)![1];
  task.meta.figures = {
    calls,
    errors: errors.length,
    "a second": Math.round(rate),
    "memory at the end": `${Math.round(server.memory / MEGABYTE)} MB`,
    "of it in use": `${Math.round(samples.at(-1)![1])} MB`,
    "slope after the warm-up": `${slope.toFixed(2)} MB/s, ${Math.round(growth * 100)} % in 40 s`,
  };
  expect(errors.slice(0, 3)).toEqual([]);
  // A kilobyte that each call leaves behind would be more than this at any usual speed.
  expect(growth).toBeLessThan(0.1);
  expect(await server.end("SIGTERM")).toEqual([0, null]);
});

/** Of the straight line that fits the samples best. */
function slopeOf(samples: readonly (readonly [number, number])[]): number {
  const mean = (at: 0 | 1) => samples.reduce((sum, sample) => sum + sample[at], 0) / samples.length;
  const [x, y] = [mean(0), mean(1)];
  const spread = samples.reduce((sum, [time]) => sum + (time - x) ** 2, 0);
  return samples.reduce((sum, [time, value]) => sum + (time - x) * (value - y), 0) / spread;
}
