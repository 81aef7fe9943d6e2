import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";
import { linesOf, notingTools, repeatedIn, ServerProcess } from "./testing/server-process.ts";

const KILLS = 20;
const CLIENTS = 8;
const TOOL_TAKES = 200;

test("kill -9, 20 times under 8 clients", async ({ task }) => {
  await using workspace = await TemporaryWorkspace.create({
    "toolrack.config.js": "export default { builtins: false };",
    "tools/all.ts": notingTools,
  });
  const { directory } = workspace;
  /** By the number that a call was made with; its id is made of it. */
  const acknowledged: number[] = [];
  const cutOff: number[] = [];
  const unexpected: unknown[] = [];
  const idOf = (n: number) => `kill-${n}`;
  let next = 0;

  async function callUntilKilled(server: ServerProcess): Promise<void> {
    while (server.isAlive) {
      const n = next++;
      const answer = await server
        .call("count", { n, ms: TOOL_TAKES }, { callId: idOf(n) })
        .catch(() => undefined);
      if (answer?.body.recorded === true) acknowledged.push(n);
      else if (answer !== undefined || server.isAlive) unexpected.push(answer ?? `call ${n} was cut off`);
      else cutOff.push(n);
    }
  }

  for (let kill = 0; kill < KILLS; kill++) {
    await using server = await ServerProcess.start(directory);
    const clients = Array.from({ length: CLIENTS }, async (_, at) => {
      // Spread out, so that a kill finds calls at every point of their way.
      await sleep((at * TOOL_TAKES) / CLIENTS);
      return callUntilKilled(server);
    });
    await sleep(1_000 + ((kill * 137) % 500));
    expect(await server.end("SIGKILL")).toEqual([null, "SIGKILL"]);
    await Promise.all(clients);
  }

  await using server = await ServerProcess.start(directory);
  const begun = linesOf(directory, "begun.txt");
  const ran = new Set(begun.map(Number));
  const statusOf = async (n: number) => (await server.ask(`/api/calls/${idOf(n)}`)).body.status ?? "none";
  const lost = [];
  for (const n of acknowledged) if ((await statusOf(n)) !== "completed" || !ran.has(n)) lost.push(n);
  const ends = await Promise.all(cutOff.map(statusOf));
  // One that began and left no record could neither be settled nor be told from one that never began.
  const untold = cutOff.filter((n, at) => ran.has(n) && ends[at] === "none");
  const running = (await server.ask("/api/calls?status=running")).body.items;
  // A client that was cut off and asks again under the same id must not have the work done twice.
  const again = await Promise.all(cutOff.map((n) => server.call("count", { n }, { callId: idOf(n) })));
  const twice = repeatedIn(linesOf(directory, "begun.txt"));

  task.meta.figures = {
    kills: KILLS,
    acknowledged: acknowledged.length,
    lost: lost.length,
    "run twice": twice.length,
    "cut off": cutOff.length,
    settled: ends.filter((end) => end !== "none" && end !== "running").length,
    "never arrived": cutOff.filter((n, at) => !ran.has(n) && ends[at] === "none").length,
    "begun without a record": untold.length,
  };
  expect(unexpected).toEqual([]);
  expect(acknowledged.length).toBeGreaterThan(KILLS * CLIENTS);
  expect(cutOff.length).toBeGreaterThan(KILLS);
  expect(lost).toEqual([]);
  expect(untold).toEqual([]);
  expect(twice).toEqual([]);
  expect(running).toEqual([]);
  expect(again.filter(({ status }) => status !== 200 && status !== 409)).toEqual([]);
});
