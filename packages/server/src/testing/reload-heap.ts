import { TemporaryWorkspace } from "./temporary-workspace.ts";

/** Reloads a 10 KB tool that holds a list of objects, and prints how many bytes of heap each reload left behind. */
const reloads = Number(process.argv[2] ?? 1000);
const { gc } = globalThis as { gc?: () => void };
if (gc === undefined) throw new Error("Run it with --expose-gc.");

function source(version: number): string {
  const filler = Array.from({ length: 120 }, (_, line) => `// ${version} ${line} ${"x".repeat(60)}`).join(
    "\n",
  );
  return `${filler}
    const rows = Array.from({ length: 1000 }, (_, index) => ({ index, text: "row " + index }));
    setInterval(() => rows.length, 1000);
    export const schema = { name: "big", description: "v${version}", type: "object", properties: {} };
    export default async () => ({ content: [{ type: "text", text: "${version}:" + rows.length }] });
    export async function destroy() { rows.length = 0; }`;
}

await using workspace = await TemporaryWorkspace.create({ "tools/big.ts": source(0) });
const { registry, files } = await workspace.open();

async function reload(from: number, to: number): Promise<void> {
  for (let version = from; version < to; version++) {
    await workspace.write("tools/big.ts", source(version));
    await files.load();
    const { content } = await registry.execute("big", {});
    if (content !== `${version}:1000`) throw new Error(`Version ${version} answered ${content}.`);
  }
}

async function settledHeap(): Promise<number> {
  for (let round = 0; round < 4; round++) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    gc?.();
  }
  return process.memoryUsage().heapUsed;
}

const warmUp = 150;
await reload(1, warmUp);
const before = await settledHeap();
await reload(warmUp, warmUp + reloads);
const after = await settledHeap();
console.log(JSON.stringify({ reloads, perReload: Math.round((after - before) / reloads) }));
