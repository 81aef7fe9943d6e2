// `node scripts/run.mjs scripts/fleet-model.ts`: a model of N servers and M workers. It computes from costs that were measured
// how many calls a second a fleet takes, and which part is full first. It prints the table of docs/guides/workers.md.

/** Microseconds of CPU that one call takes in each part. */
export interface CallCost {
  readonly server: number;
  readonly worker: number;
  readonly redis: number;
  readonly postgres: number;
}

/**
 * Measured with 64 calls in flight of a tool that does nothing, on two cores that others used too (load 12), all parts on
 * one machine, and so rather too high than too low. PostgreSQL wrote without waiting for its disk.
 */
export const measured: Readonly<Record<"direct" | "lane", CallCost>> = {
  direct: { server: 105, worker: 0, redis: 0, postgres: 30 },
  lane: { server: 250, worker: 220, redis: 150, postgres: 100 },
};

export interface Fleet {
  readonly servers: number;
  readonly workers: number;
  /** Cores of the database's machine. */
  readonly postgresCores: number;
  /** The share of calls that go to workers, from 0 to 1. */
  readonly laneShare: number;
  /** Milliseconds of CPU that the tool itself takes. */
  readonly toolMilliseconds: number;
}

/** How much of a part may be used: beyond it, waiting times grow without bound. */
const FULL = 0.7;
/** Node and Redis run their code on one core. */
const ONE_CORE = 1e6;

export interface Forecast {
  readonly callsPerSecond: number;
  readonly full: "servers" | "workers" | "Redis" | "PostgreSQL";
}

/** How many calls a second the fleet takes, and which part is full then. */
export function forecast(fleet: Fleet, costs = measured): Forecast {
  const { servers, workers, postgresCores, laneShare, toolMilliseconds } = fleet;
  const mixed = (part: keyof CallCost) => costs.direct[part] * (1 - laneShare) + costs.lane[part] * laneShare;
  const tool = toolMilliseconds * 1_000;
  const parts = {
    servers: { has: servers * ONE_CORE, takes: mixed("server") + tool * (1 - laneShare) },
    workers: { has: workers * ONE_CORE, takes: mixed("worker") + tool * laneShare },
    Redis: { has: ONE_CORE, takes: mixed("redis") },
    PostgreSQL: { has: postgresCores * ONE_CORE, takes: mixed("postgres") },
  };
  let found: Forecast = { callsPerSecond: Number.POSITIVE_INFINITY, full: "servers" };
  for (const [full, { has, takes }] of Object.entries(parts)) {
    const callsPerSecond = takes === 0 ? Number.POSITIVE_INFINITY : (FULL * has) / takes;
    // The keys of an object are those that it was written with.
    if (callsPerSecond < found.callsPerSecond) found = { callsPerSecond, full: full as Forecast["full"] };
  }
  return found;
}

const fleets: readonly (Omit<Fleet, "laneShare" | "toolMilliseconds"> & { readonly name: string })[] = [
  { name: "1 / 0 / 4", servers: 1, workers: 0, postgresCores: 4 },
  { name: "2 / 2 / 4", servers: 2, workers: 2, postgresCores: 4 },
  { name: "4 / 8 / 8", servers: 4, workers: 8, postgresCores: 8 },
  { name: "8 / 32 / 16", servers: 8, workers: 32, postgresCores: 16 },
  { name: "16 / 128 / 32", servers: 16, workers: 128, postgresCores: 32 },
];

/** The table of the guide: a line for each fleet, a column for each kind of work. */
export function table(): string {
  const kinds = [
    { laneShare: 0, toolMilliseconds: 0 },
    { laneShare: 1, toolMilliseconds: 0 },
    { laneShare: 1, toolMilliseconds: 50 },
    { laneShare: 0.1, toolMilliseconds: 50 },
  ];
  const lines = fleets.map(({ name, ...fleet }) => {
    const cells = kinds.map((kind) => {
      if (kind.laneShare > 0 && fleet.workers === 0) return "–";
      const { callsPerSecond, full } = forecast({ ...fleet, ...kind });
      return `${shown(callsPerSecond)} (${full})`;
    });
    return `| ${[name, ...cells].join(" | ")} |`;
  });
  return [
    "| servers / workers / PostgreSQL cores | no lane, 0 ms | all in a lane, 0 ms | all in a lane, 50 ms | 10% in a lane, 50 ms |",
    "|---|---|---|---|---|",
    ...lines,
  ].join("\n");
}

/** Two digits are all that a model is good for. */
function shown(callsPerSecond: number): string {
  const scale = 10 ** Math.max(0, Math.floor(Math.log10(callsPerSecond)) - 1);
  return (Math.round(callsPerSecond / scale) * scale).toLocaleString("en");
}

if (import.meta.main) console.log(table());
