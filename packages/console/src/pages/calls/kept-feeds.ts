import { watch } from "vue";
import { currentSession } from "../../api/session.ts";
import type { CallSummary } from "../../api/types.ts";

/** What somebody had before them of the calls that fit a query. */
export interface KeptFeed {
  readonly calls: readonly CallSummary[];
  /** Where the next page begins. */
  readonly next: string | undefined;
  readonly selected: string;
  readonly unfolded: ReadonlySet<string>;
  /** How far it was scrolled, in pixels. */
  readonly top: number;
}

const MOST = 10;
const feeds = new Map<string, KeptFeed>();

/** Keeps a feed for who looks at a call and comes back. Those that were left longest ago go first. */
export function keepFeed(query: object, feed: KeptFeed): void {
  const key = JSON.stringify(query);
  feeds.delete(key);
  feeds.set(key, feed);
  for (const oldest of feeds.keys()) {
    if (feeds.size <= MOST) return;
    feeds.delete(oldest);
  }
}

/**
 * The feed as it was left, for who comes back to it: by a step back, or from the page of a call. Who comes from elsewhere
 * wants the newest calls.
 */
export function keptFeed(query: object, arrival: unknown): KeptFeed | undefined {
  return isReturn(arrival) ? feeds.get(JSON.stringify(query)) : undefined;
}

/** `arrival` is what the router keeps in the browser's history: the addresses before and after this one. */
function isReturn(arrival: unknown): boolean {
  const { back, forward } = (arrival ?? {}) as { back?: unknown; forward?: unknown }; // Read as what it may be.
  return typeof forward === "string" || (typeof back === "string" && back.startsWith("/calls/"));
}

watch(
  () => currentSession.refusal,
  (refusal) => {
    if (refusal === "missing") feeds.clear();
  },
);
