import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { openStore } from "../../packages/server/src/store/store.ts";
import { startRack } from "../lib/served-process.ts";
import type { Figure, GrowthPart } from "./part.ts";
import { Rack, row } from "./rack.ts";
import { measureStart } from "./store.ts";

const largest = Number(process.env.BENCH_GROWTH_TOOLS ?? 50_000);

export const skill: GrowthPart = {
  title: "the tools of one skill",
  sizes: [largest / 50, largest / 5, largest].map(String),
  measure: (size) => measureSkill(Number(size)),
};

/** Starts a rack with a skill that has many tools, reads them, and changes one of them. Linux only. */
export async function measureSkill(count: number): Promise<Figure[]> {
  const directory = await mkdtemp(join(tmpdir(), "toolrack-growth-"));
  const fields = { type: "http", endpoint: "http://127.0.0.1/x", description: "Gets x." } as const;
  const tools = Array.from({ length: count }, (_, n) => ({ name: `made_${n}`, ...fields }));
  const store = await openStore({ directory: join(directory, ".toolrack") });
  const { id } = await store.skills.add({ skill: { name: "growing" }, tools, files: [] });
  await store.close();
  const starts = await measureStart(directory);
  const server = await startRack(directory);
  try {
    const rack = new Rack(server);
    const reading = await rack.cost("/api/tools?limit=100", 1);
    const search = await rack.cost("/api/tools?limit=20&q=get+x", 1);
    await rack.ask("/api/tools/add", { method: "PATCH", body: { enabled: true } });
    // The follower of the store looks every second whether skills have changed.
    const afterSwitch = await rack.waitsDuring(() => sleep(2_500));
    const path = `/api/skills/${id}/tools`;
    const add = (name: string) => rack.ask(path, { method: "POST", body: { name, ...fields } });
    const change = (name: string, n: number) =>
      rack.ask(`${path}/${name}`, { method: "PATCH", body: { description: `Gets x ${n}.` } });
    const remove = (name: string) => rack.ask(`${path}/${name}`, { method: "DELETE" });
    const each = async (work: (name: string, n: number) => Promise<unknown>, from: number) => {
      const times = 30;
      const before = rack.cpu();
      const waits = await rack.waitsDuring(async () => {
        for (let n = from; n < from + times; n++) await work(`tool_${n}`, n);
      });
      return { cpu: ((rack.cpu() - before) * 1_000) / times, longest: waits.at(-1) ?? 0 };
    };
    // The first round compiles code, and follows what the start has left to do.
    for (const work of [add, change, remove]) await each(work, 0);
    const added = await each(add, 100);
    const changed = await each(change, 100);
    const removed = await each(remove, 100);
    return [
      ...starts,
      { ...row("all tools are read after the start, in slices", reading.cpu, "ms CPU"), grows: true },
      { ...row("the same, others wait", reading.longest, "ms", 50), grows: true },
      { ...row("first search, others wait", search.longest, "ms", 50), grows: true },
      { ...row("after a switch of a tool, others wait", afterSwitch.at(-1) ?? 0, "ms", 50), grows: true },
      row("adding one tool", added.cpu, "ms CPU", 5),
      { ...row("adding one tool, others wait", added.longest, "ms", 50), grows: true },
      row("changing one tool", changed.cpu, "ms CPU", 5),
      row("removing one tool", removed.cpu, "ms CPU", 5),
    ];
  } finally {
    server.process.kill("SIGKILL");
    await rm(directory, { recursive: true, force: true, maxRetries: 5 });
  }
}
