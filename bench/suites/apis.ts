import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { contestants } from "../contestants/index.ts";
import { cpuNanosecondsPerOperation } from "../lib/cpu.ts";
import { describeGoal, type GoalOutcome, judgeGoal } from "../lib/goal.ts";
import { medianOf } from "../lib/median-of.ts";
import type { Suite } from "../lib/suite.ts";
import { formatNumber, formatRatio } from "../lib/table.ts";

interface ApiSample {
  /** Microseconds of the whole process for each call. */
  readonly cpu: number;
}

type Caller = (id: number) => Promise<unknown>;

const limit = 3;
const budget = { warmUpMilliseconds: 1_500, measureMilliseconds: 2_500 };
/** How many operations the description has. */
const variants: Readonly<Record<string, number>> = { "10 operations": 10, "1,500 operations": 1_500 };
const self = fileURLToPath(import.meta.url);

/** A call of an API's operation on a rack, with its record, beside the same request written by hand. */
export const apis: Suite<ApiSample> = {
  title: "HTTP APIs",
  floor: "node-fetch",
  contestants: ["node-fetch", "ours-api"],
  variants: Object.keys(variants),

  async sample({ contestant, variant }) {
    // The API runs in a process of its own, so that only the caller is measured.
    const server = fork(self, ["serve"], { execArgv: [] });
    const [port] = await once(server, "message");
    const base = `http://127.0.0.1:${port}`;
    const directory = await mkdtemp(join(tmpdir(), "toolrack-bench-"));
    await using cleanUp = new AsyncDisposableStack();
    cleanUp.defer(() => rm(directory, { recursive: true, force: true, maxRetries: 5 }));
    cleanUp.defer(() => void server.kill());
    const call =
      contestant === "node-fetch" ? byHand(base) : await onRack(base, directory, variants[variant]!, cleanUp);
    if (JSON.stringify(await call(7)) !== '{"id":7,"name":"Rex"}') throw new Error("a wrong answer");
    const nanoseconds = await cpuNanosecondsPerOperation(async (count) => {
      for (let id = 0; id < count; id++) await call(id);
    }, budget);
    return { cpu: nanoseconds / 1000 };
  },

  report(measured) {
    const goals: GoalOutcome[] = [];
    const rows = measured.map((entry) => {
      const floor = measured.find((one) => one.contestant === apis.floor && one.variant === entry.variant);
      const ratio = medianOf(entry, "cpu") / medianOf(floor, "cpu");
      const goal = entry.contestant === "ours-api" ? judgeGoal(entry.variant, limit, ratio) : undefined;
      if (goal !== undefined) goals.push(goal);
      const title = `${contestants[entry.contestant].title}, ${entry.variant}`;
      return [
        title,
        formatNumber(medianOf(entry, "cpu")),
        formatRatio(ratio),
        goal === undefined ? "" : describeGoal(goal),
      ];
    });
    return {
      tables: [
        { title: "a call of an operation", columns: ["contestant", "CPU, µs", "CPU to floor", "goal"], rows },
      ],
      goals,
    };
  },
};

function byHand(base: string): Caller {
  return async (id) => {
    const response = await fetch(`${base}/pets/${encodeURIComponent(id)}?fields=name`, {
      headers: { accept: "application/json", "x-key": "key-of-the-shop" },
    });
    return response.json();
  };
}

async function onRack(
  base: string,
  directory: string,
  operations: number,
  cleanUp: AsyncDisposableStack,
): Promise<Caller> {
  const parameters = [
    { name: "id", in: "path", required: true, schema: { type: "integer" } },
    { name: "fields", in: "query", schema: { type: "string" } },
  ];
  const paths = Object.fromEntries(
    Array.from({ length: operations }, (_, at) => [
      at === 0 ? "/pets/{id}" : `/pets${at}/{id}`,
      { get: { operationId: `getPet${at}`, parameters } },
    ]),
  );
  const securitySchemes = { key: { type: "apiKey", in: "header", name: "X-Key" } };
  const spec = {
    openapi: "3.1.0",
    info: { title: "Shop" },
    paths,
    components: { securitySchemes },
    security: [{ key: [] }],
  };
  await writeFile(join(directory, "shop.json"), JSON.stringify(spec));
  const entry = { spec: "shop.json", baseUrl: base, auth: { key: "key-of-the-shop" } };
  await writeFile(join(directory, "apis.json"), JSON.stringify({ apis: { shop: entry } }));
  await writeFile(join(directory, "toolrack.config.js"), "export default { builtins: false };");
  const { serve } = await import("../../packages/server/src/rack/serve.ts");
  const logger = { debug() {}, info() {}, warn() {}, error() {} };
  const serving = await serve(directory, { logger, port: 0, onReload() {} });
  cleanUp.defer(() => serving.close());
  const { registry } = serving.app;
  while (registry.get("api_shop_getPet0") === undefined) await sleep(20);
  return async (id) => (await registry.execute("api_shop_getPet0", { id, fields: "name" })).structured;
}

if (process.argv[2] === "serve" && process.send !== undefined) {
  const server = createServer(({ url = "" }, response) => {
    const id = Number(/\/(\d+)\?/.exec(url)?.[1]);
    response.setHeader("content-type", "application/json").end(JSON.stringify({ id, name: "Rex" }));
  });
  server.listen(0, "127.0.0.1", () => process.send?.((server.address() as AddressInfo).port)); // A server at an address has a port.
}
