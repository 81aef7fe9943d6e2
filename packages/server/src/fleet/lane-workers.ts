import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { ToolInfo } from "@toolrack/core";
import { toDefinition } from "@toolrack/core/format";
import { hashValue } from "@toolrack/core/internal";
import { toolMatcher } from "../config/index.ts";
import type { LaneLink } from "./lane-link.ts";

/** What the config says of a lane. */
export interface LaneConfig {
  /** Patterns of the names of tools, or `mcp:SERVER`, that run in this lane, beside those that name it in their metadata. */
  readonly tools?: readonly string[];
  /** How many calls may wait in the lane before new ones are answered with `busy`. Default 1,000. */
  readonly maxWaiting?: number;
  /** By tool: how many of its calls may run at once in all workers together, and how many may begin in some seconds. */
  readonly limits?: Readonly<Record<string, LaneLimit>>;
}

export interface LaneLimit {
  readonly concurrency?: number;
  readonly rate?: { readonly calls: number; readonly seconds: number };
}

export type LanesConfig = Readonly<Record<string, LaneConfig>>;

/** A queue of a lane, as a worker announces it. */
export interface LaneQueue {
  readonly name: string;
  readonly lane: string;
  /** Calls of these tools are run again when their worker died. */
  readonly isIdempotent: boolean;
  /** The version of each tool whose calls the worker takes from this queue. */
  readonly tools: Readonly<Record<string, string>>;
  readonly limit?: LaneLimit | undefined;
}

/** What a worker tells of itself. */
export interface WorkerView {
  /** The id of its process, as in the rows of the calls that it performs. */
  readonly id: string;
  readonly host: string;
  readonly pid: number;
  readonly version: string;
  readonly lanes: readonly string[];
  readonly concurrency: number;
  readonly running: number;
  readonly startedAt: number;
  readonly queues: readonly LaneQueue[];
}

/** A lane, as a server sees it. */
export interface LaneView {
  readonly name: string;
  /** How many calls wait for a worker. */
  readonly waiting: number;
  /** The names of its tools, as this server has them. */
  readonly tools: readonly string[];
  readonly workers: readonly WorkerView[];
}

/** What workers tell all servers: that they are there, or that they take no more calls. */
export interface WorkerNotice {
  readonly view: WorkerView;
  readonly isGone: boolean;
}

/** Milliseconds between two announcements of a worker, and after which one that is silent is forgotten. */
export const ANNOUNCE_EVERY = 3_000;
export const FORGET_AFTER = 10_000;

/** Returns a function that tells the lane of a tool: as its metadata says, or else a pattern of the config. */
export function laneFinder(config: LanesConfig): (tool: ToolInfo) => string | undefined {
  const lanes = Object.entries(config).map(([lane, { tools }]) => ({ lane, matches: toolMatcher(tools) }));
  const known = new WeakMap<ToolInfo, { readonly lane: string | undefined }>();
  return (tool) => {
    let found = known.get(tool);
    if (found === undefined) {
      const { lane = lanes.find(({ matches }) => matches(tool))?.lane } = tool.metadata;
      found = { lane };
      known.set(tool, found);
    }
    return found.lane;
  };
}

/**
 * The version of a tool: what its source says, and otherwise what callers are shown of it. Its metadata is left out: that of an
 * upstream's tool says whether the upstream is starting or ready, which differs from process to process.
 */
export function versionOf(tool: ToolInfo): string {
  if (tool.version !== undefined) return tool.version;
  const { metadata: _, ...shown } = toDefinition(tool);
  return hashValue(shown).slice(0, 16);
}

/**
 * The queues from which a worker with these tools takes calls. Workers with the same tools share their queues, so that a
 * call never comes to a worker that has another version of its tool. A tool with limits of its own has a queue of its own,
 * because the limits of a queue hold over all workers.
 */
export function queuesFor(
  tools: readonly ToolInfo[],
  laneOf: (tool: ToolInfo) => string | undefined,
  lanes: readonly string[] | undefined,
  config: LanesConfig,
): LaneQueue[] {
  const queues = new Map<string, { queue: LaneQueue; tools: Record<string, string> }>();
  for (const tool of tools) {
    const lane = laneOf(tool);
    if (lane === undefined || lanes?.includes(lane) === false) continue;
    const isIdempotent = isRepeatable(tool);
    const limit = config[lane]?.limits?.[tool.name];
    const key = `${lane}.${isIdempotent ? "again" : "once"}${limit === undefined ? "" : `.${tool.name}`}`;
    const found = queues.get(key) ?? {
      queue: { name: key, lane, isIdempotent, limit, tools: {} },
      tools: {},
    };
    found.tools[tool.name] = versionOf(tool);
    queues.set(key, found);
  }
  return [...queues.values()].map(({ queue, tools: versions }) => {
    const listed = Object.entries(versions).sort(([one], [other]) => (one < other ? -1 : 1));
    const hash = createHash("sha256").update(JSON.stringify(listed)).digest("hex").slice(0, 16);
    return { ...queue, name: `${queue.name}.${hash}`, tools: versions };
  });
}

/** Whether a call of the tool may be run again. Reading changes nothing, so it may. */
export function isRepeatable({ metadata }: ToolInfo): boolean {
  return metadata.idempotent === true || metadata.readOnly === true;
}

/** The workers that are there, by what they announce. */
export class WorkerDirectory {
  readonly #workers = new Map<string, { readonly view: WorkerView; readonly until: number }>();
  /** Called when a worker came, changed or left. */
  onChange: () => void = () => {};

  note({ view, isGone }: WorkerNotice): void {
    const before = this.#workers.get(view.id)?.view;
    if (isGone) this.#workers.delete(view.id);
    else this.#workers.set(view.id, { view, until: Date.now() + FORGET_AFTER });
    const isSame = before !== undefined && namesOf(before) === namesOf(view);
    if (isGone || !isSame) this.onChange();
  }

  list(): WorkerView[] {
    const now = Date.now();
    for (const [id, { until }] of this.#workers) if (until < now) this.#workers.delete(id);
    return Array.from(this.#workers.values(), ({ view }) => view);
  }

  /** The queue to which most workers listen that have this version of the tool. */
  queueFor(lane: string, tool: string, version: string): LaneQueue | undefined {
    const found = new Map<string, { readonly queue: LaneQueue; workers: number }>();
    for (const { queues } of this.list())
      for (const queue of queues) {
        if (queue.lane !== lane || queue.tools[tool] !== version) continue;
        const known = found.get(queue.name) ?? { queue, workers: 0 };
        known.workers++;
        found.set(queue.name, known);
      }
    let best: { readonly queue: LaneQueue; readonly workers: number } | undefined;
    for (const one of found.values()) if (best === undefined || one.workers > best.workers) best = one;
    return best?.queue;
  }

  /** Why there is no queue for the tool, for people. */
  missing(lane: string, tool: string): string {
    const others = this.list().filter(({ lanes }) => lanes.includes(lane));
    if (others.length === 0) return `Waiting for a worker of lane "${lane}": none is there.`;
    const hasTool = others.some(({ queues }) => queues.some(({ tools }) => tools[tool] !== undefined));
    const what = hasTool ? "has another version of it" : "does not have it";
    return `Waiting for a worker of lane "${lane}" with this version of ${tool}: every one that is there ${what}.`;
  }
}

function namesOf({ queues }: WorkerView): string {
  return queues.map(({ name }) => name).join();
}

interface LaneCountsOptions {
  readonly link: Pick<LaneLink, "isUp" | "queue">;
  readonly config: LanesConfig;
  readonly directory: WorkerDirectory;
  /** How many calls of the lane wait that are in no queue. */
  readonly countHomeless: (lane: string) => number;
}

interface LaneCount {
  waiting: number;
  perSecond: number;
  /** How many calls of this process have ended since `countedAt`. */
  ended: number;
  countedAt: number;
  /** Resolves when the queues have been counted that were asked at `countedAt`. */
  counting: Promise<void>;
}

const USUAL_MOST_WAITING = 1_000;
/** Milliseconds between two counts of a lane's queues, and for how long somebody who looks at a lane waits for one. */
const COUNT_EVERY = 500;

/** How many calls wait in each lane. What a call needs of it is known without waiting for Redis. */
export class LaneCounts {
  readonly #options: LaneCountsOptions;
  readonly #counts = new Map<string, LaneCount>();

  constructor(options: LaneCountsOptions) {
    this.#options = options;
  }

  async waiting(lane: string): Promise<number> {
    const count = this.#count(lane);
    await Promise.race([count.counting, sleep(COUNT_EVERY, undefined, { ref: false })]);
    return Math.max(0, count.waiting);
  }

  /** A call of this process has come to the lane, no longer waits there, has ended. */
  entered(lane: string): void {
    this.#count(lane).waiting++;
  }
  left(lane: string): void {
    this.#count(lane).waiting--;
  }
  ended(lane: string): void {
    this.#count(lane).ended++;
  }

  /** Undefined unless as many calls wait as may: then also how many seconds a caller should wait. */
  busy(lane: string): { readonly waiting: number; readonly seconds: number } | undefined {
    const { waiting, perSecond } = this.#count(lane);
    const most = this.#options.config[lane]?.maxWaiting ?? USUAL_MOST_WAITING;
    if (waiting < most) return undefined;
    // As long as a tenth of the queue takes at the speed of the last seconds.
    const seconds = Math.ceil(Math.min(60, Math.max(1, most / 10 / Math.max(1, perSecond))));
    return { waiting, seconds };
  }

  #count(lane: string): LaneCount {
    let count = this.#counts.get(lane);
    if (count === undefined) {
      count = { waiting: 0, perSecond: 0, ended: 0, countedAt: 0, counting: Promise.resolve() };
      this.#counts.set(lane, count);
    }
    const now = Date.now();
    const since = now - count.countedAt;
    if (since > COUNT_EVERY && this.#options.link.isUp) {
      count.perSecond = count.countedAt === 0 ? 0 : (count.ended * 1_000) / since;
      count.ended = 0;
      count.countedAt = now;
      count.counting = this.#recount(lane, count);
    }
    return count;
  }

  async #recount(lane: string, count: LaneCount): Promise<void> {
    const { link, directory, countHomeless } = this.#options;
    const names = new Set(
      directory
        .list()
        .flatMap(({ queues }) => queues.flatMap((queue) => (queue.lane === lane ? [queue.name] : []))),
    );
    const counted = Array.from(names, (name) =>
      link
        .queue(name)
        .getWaitingCount()
        .catch(() => 0),
    );
    const queued = (await Promise.all(counted)).reduce((sum, one) => sum + one, 0);
    count.waiting = queued + countHomeless(lane);
  }
}
