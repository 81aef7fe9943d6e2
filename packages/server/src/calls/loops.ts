import type { Logger, ToolRegistry } from "@toolrack/core";
import type { Channel, Nodes } from "../fleet/index.ts";
import type { CallQuery, Following, LoopRelease, Store, StoredCall } from "../store/index.ts";

import type { CallBook, LiveCall } from "./call-book.ts";

type Verdict = NonNullable<NonNullable<StoredCall["flags"]>["loop"]>;

/** A session that went in circles, with the latest call that showed it. */
export interface Loop
  extends Pick<StoredCall, "sessionID" | "callId" | "toolName" | "displayName" | "caller"> {
  /** When that call was made. Milliseconds since the epoch. */
  readonly at: number;
  /** `stopped`: no call of the session runs until somebody lets it go on. `resumed`: somebody did. */
  readonly state: "told" | "held" | "stopped" | "resumed";
  readonly verdict: Verdict;
  /** Who let the session go on after this call. */
  readonly resumed?: Pick<LoopRelease, "by" | "at">;
}

interface LoopsParts {
  readonly registry: Pick<ToolRegistry, "resumeSession">;
  /** Where nodes tell each other what sessions have done, because the next call of a session may reach any. */
  readonly shared?: {
    readonly book: CallBook;
    readonly channel: Channel | undefined;
    readonly nodes: Pick<Nodes, "servers">;
  };
  readonly store: Pick<Store, "calls" | "loopReleases" | "registryVersion" | "follower">;
  readonly logger: Pick<Logger, "info" | "warn">;
}

/** What loop detection remembers of a session. */
interface SharedMemory {
  readonly sessionID: string;
  readonly owner: string;
  readonly state: ReturnType<ToolRegistry["getLoopState"]>;
}

/** The topic on which nodes tell each other of it. */
const MEMORY = "loop memory";

/** Milliseconds by which the clock of the node that let a session go on may be slower than this node's. */
const CLOCKS_DIFFER = 60_000;

const states = { none: "told", nudge: "told", block: "held", stop: "stopped" } as const;

/** The sessions that went in circles. A person can let them go on; all nodes on the same store learn of it. */
export class Loops {
  readonly #parts: LoopsParts;
  readonly #following: Following;
  readonly #stops: (() => void)[] = [];
  /** When releases were last read. */
  #readAt = Date.now();
  /** The releases that were read then. */
  #known: ReadonlySet<string> = new Set();

  constructor(parts: LoopsParts) {
    const { store, logger } = parts;
    this.#parts = parts;
    this.#following = store.follower.follow("registry", {
      version: () => store.registryVersion.read(),
      refresh: () => this.#refresh(),
      failed: (error) => logger.warn("Which sessions others let go on could not be read:", error),
    });
    const { channel, book, nodes } = parts.shared ?? {};
    if (book === undefined || channel?.isShared !== true) return;
    const { registry } = book;
    this.#stops.push(
      book.follow({
        ended: (call) => {
          // A session that only this node serves needs no copy of what it has done.
          if (call !== undefined && nodes !== undefined && nodes.servers > 1)
            tellMemory(call, registry, channel);
        },
      }),
      // What other nodes publish is what `tellMemory` has made.
      channel.listen(MEMORY, (body) => learnMemory(body as SharedMemory, registry)),
    );
  }

  /** The loops of the calls that the query selects, newest first: each loop once, with its latest call. */
  async list(query: CallQuery): Promise<Loop[]> {
    const { store } = this.#parts;
    const { items } = await store.calls.list({ ...query, flag: "loop" });
    const releases = await store.loopReleases.since(query.since ?? 0);
    const seen = new Set<string>();
    return items.flatMap((call): Loop[] => {
      const verdict = call.flags?.loop;
      const key = loopKey(call);
      if (verdict === undefined || seen.has(key)) return [];
      seen.add(key);
      const { sessionID, callId, toolName, displayName, caller, timestamp: at } = call;
      const release = releases.find((one) => one.sessionID === sessionID && one.at >= at);
      const facts = { sessionID, callId, toolName, displayName, caller, at, verdict };
      if (release === undefined) return [{ ...facts, state: states[verdict.action] }];
      return [{ ...facts, state: "resumed", resumed: { by: release.by, at: release.at } }];
    });
  }

  /** Lets a session go on: what it repeated before no longer counts, here and on other nodes. */
  async resume(sessionID: string, by: string): Promise<LoopRelease> {
    const { registry, store, logger } = this.#parts;
    const release = { sessionID, by, at: Date.now() };
    await store.loopReleases.add(release);
    registry.resumeSession(sessionID);
    logger.info(`${by} let the session ${sessionID} go on, which loop detection held`);
    return release;
  }

  close(): Promise<void> {
    for (const stop of this.#stops) stop();
    return this.#following.stop();
  }

  async #refresh(): Promise<void> {
    const { registry, store } = this.#parts;
    const now = Date.now();
    const releases = await store.loopReleases.since(this.#readAt - CLOCKS_DIFFER);
    const known = this.#known;
    this.#known = new Set(releases.map(({ sessionID, at }) => `${at} ${sessionID}`));
    this.#readAt = now;
    for (const { sessionID, at } of releases)
      if (!known.has(`${at} ${sessionID}`)) registry.resumeSession(sessionID);
  }
}

/** Calls of one loop of a session have one key. */
export function loopKey({ sessionID, callId, flags }: StoredCall): string {
  return `${sessionID} ${flags?.loop?.fingerprint ?? callId}`;
}

/** A session makes its calls one after the other, so that the node of the last one knows most. */
function tellMemory({ sessionID, grant }: LiveCall, registry: ToolRegistry, channel: Channel): void {
  if (sessionID === "" || grant === undefined) return;
  const state = registry.getLoopState(sessionID, grant.id);
  channel.publish(MEMORY, { sessionID, owner: grant.id, state });
}

function learnMemory({ sessionID, owner, state }: SharedMemory, registry: ToolRegistry): void {
  if (state.total >= registry.getLoopState(sessionID, owner).total)
    registry.restoreLoopState(sessionID, state, owner);
}
