import type { McpParts } from "./mcp-parts.ts";
import type { Viewer } from "./viewer.ts";

/** How many resources one client may watch by one request or in one session. */
export const mostWatched = 256;

export interface Listened {
  /** What is to be answered: the resources that the viewer has not, or that are too many, are left out of it. */
  readonly message: unknown;
  /** To be called when nobody listens any more. */
  stop(): void;
}

/** Whether a message asks to be told of changes. */
export function isListen(message: unknown): boolean {
  return recordOf(message).method === "subscriptions/listen";
}

/** Whether a message asks to be told of changes of resources. */
export function wantsResources(message: unknown): boolean {
  return urisOf(message) !== undefined;
}

/** Watches the resources whose changes a message asks to be told of, as far as the viewer may read them. */
export async function watchListened(
  { offerings }: Pick<McpParts, "offerings">,
  viewer: Viewer,
  message: unknown,
): Promise<Listened> {
  const uris = urisOf(message);
  if (uris === undefined) return { message, stop() {} };
  const reader = viewer.reader(new AbortController().signal);
  const watched = new Map<string, () => void>();
  for (const uri of new Set(uris.slice(0, mostWatched))) {
    // One that cannot be watched keeps nobody from hearing of the others.
    const stop = await offerings.watchResource(uri, reader).catch(() => undefined);
    if (stop !== undefined) watched.set(uri, stop);
  }
  return {
    message: withUris(message, [...watched.keys()]),
    stop() {
      for (const stop of watched.values()) stop();
    },
  };
}

/** Undefined for whatever is not such a message, or not written as one: what is to be said of it, the SDK says. */
function urisOf(message: unknown): string[] | undefined {
  if (!isListen(message)) return undefined;
  const { resourceSubscriptions: uris } = recordOf(recordOf(recordOf(message).params).notifications);
  return Array.isArray(uris) ? uris.filter((uri) => typeof uri === "string") : undefined;
}

function withUris(message: unknown, resourceSubscriptions: readonly string[]): unknown {
  const params = recordOf(recordOf(message).params);
  const notifications = { ...recordOf(params.notifications), resourceSubscriptions };
  return { ...recordOf(message), params: { ...params, notifications } };
}

function recordOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? { ...value } : {};
}
