import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { StackMapper } from "../../helpers/index.ts";
import { Compiler } from "./compile.ts";
import { ModuleGraph } from "./module-graph.ts";
import { Resolver } from "./resolver.ts";

const LOOP = "while (true) {}";
const stopped = /Loading it took longer than 1000 ms; the file seems to loop/;

async function graphOf(files: Record<string, string>, isCheck = false) {
  const folder = await mkdtemp(join(tmpdir(), "toolrack-graph-"));
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
  const graph = ModuleGraph.empty({
    ...{ compiler: new Compiler(), resolver: new Resolver([]), stacks: new StackMapper() },
    ...{ provide: () => undefined, evaluationLimit: 1_000, isCheck },
  });
  return {
    prepare: () => graph.prepare(Object.keys(files).map((name) => join(folder, name))),
    load: (name: string) => graph.load(join(folder, name)),
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true }),
  };
}

describe("files that share a time limit while they are evaluated", () => {
  it("are blamed each for what it does itself, and the others load", async () => {
    await using graph = await graphOf({
      "a.ts": "export const name = 'a';",
      "b.ts": "throw new Error('at load');",
      "c.ts": LOOP,
      "d.ts": "export const name = 'd';",
    });
    await graph.prepare();
    expect((await graph.load("a.ts")).exports).toMatchObject({ name: "a" });
    await expect(graph.load("b.ts")).rejects.toThrow(/threw while loading: at load/);
    await expect(graph.load("c.ts")).rejects.toThrow(stopped);
    expect((await graph.load("d.ts")).exports).toMatchObject({ name: "d" });
  });

  it("are stopped also after an import of another file was stopped, and no half of it stays", async () => {
    await using graph = await graphOf({
      "importer.ts": "import './loops.ts';",
      "loops.ts": LOOP,
      "last.ts": LOOP,
    });
    await graph.prepare();
    for (const name of ["importer.ts", "loops.ts", "last.ts"])
      await expect(graph.load(name)).rejects.toThrow(stopped);
  });

  it("leave the timers of the process as they were when a check stops them", async () => {
    const { setTimeout: before } = globalThis;
    await using graph = await graphOf({ "importer.ts": "import './loops.ts';", "loops.ts": LOOP }, true);
    await expect(graph.load("importer.ts")).rejects.toThrow(stopped);
    expect(globalThis.setTimeout).toBe(before);
  });
});

it("an import that a running tool makes has the time limit, too", async () => {
  await using graph = await graphOf({
    "tool.ts": "export const run = () => import('./loops.ts');",
    "loops.ts": LOOP,
  });
  const { run } = (await graph.load("tool.ts")).exports as { run(): Promise<unknown> }; // As written above.
  await expect(run()).rejects.toThrow(stopped);
});
