import { AsyncLocalStorage } from "node:async_hooks";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { ServerEvent, ServerEventBus } from "@modelcontextprotocol/server";
import type { ProgressUpdate } from "@toolrack/core";
import {
  type Audience,
  type ExpertResolver,
  type ExpertView,
  KnownList,
  type ListKind,
  mayUseExpert,
  type Viewer,
} from "./lists.ts";
import type { McpParts } from "./surface.ts";

/** How long changes are gathered before clients are told of them, in milliseconds: a reload makes several. */
const GATHER = 50;
/** How many views are remembered of which nobody is connected just now. */
const MOST_VIEWS = 256;

type PublishParts = Pick<McpParts, "registry" | "offerings" | "lists" | "onExpertsChanged">;

interface View extends Readonly<Record<ListKind, KnownList>> {
  /** The version of the rack at which its tools were last looked at. */
  lookedAt: number | undefined;
}

const kinds: readonly ListKind[] = ["tools", "prompts", "resources"];

/**
 * Tells clients which of their lists have changed. Whatever happens on the rack, each client sees a part of it only, and
 * sources tell of more than what has changed: so those lists of everybody who is connected are looked at that may have.
 */
export class ChangePublisher {
  readonly #parts: PublishParts;
  readonly #audiences = new Set<Audience>();
  /** What the lists of each view were when they were last looked at. Of many, those that were used last. */
  readonly #views = new Map<string, View>();
  readonly #stops: readonly (() => void)[];
  #gathering: NodeJS.Timeout | undefined;
  /** Lists that may have changed since clients were last told. */
  readonly #doubtful = new Set<ListKind>();
  #isStopped = false;

  /** `resourceUpdated` hears of every resource whose content is another one. */
  constructor(parts: PublishParts, resourceUpdated: (uri: string) => void) {
    this.#parts = parts;
    this.#stops = [
      parts.registry.subscribe(() => this.#gather(["tools"]), ["tools"]),
      parts.offerings.subscribe((change) => {
        if (change.kind === "resource") resourceUpdated(change.uri);
        // A skill shows as resources.
        else this.#gather([change.kind === "prompts" ? "prompts" : "resources"]);
      }),
      parts.onExpertsChanged?.(() => this.#gather(kinds)) ?? (() => {}),
    ];
  }

  /** Tells this one too, until the function that it answers is called. */
  join(audience: Audience): () => void {
    this.#audiences.add(audience);
    // Only what somebody may have seen can be another one.
    const { principal } = audience.viewer;
    if (!this.#views.has(principal))
      void this.#look(this.#viewOf(principal), audience.viewer, kinds, () => {});
    return () => this.#audiences.delete(audience);
  }

  stop(): void {
    this.#isStopped = true;
    clearTimeout(this.#gathering);
    for (const stop of this.#stops) stop();
    this.#audiences.clear();
  }

  #gather(changed: readonly ListKind[]): void {
    for (const kind of changed) {
      this.#doubtful.add(kind);
      for (const view of this.#views.values()) view[kind].doubt();
    }
    this.#gathering ??= setTimeout(() => {
      this.#gathering = undefined;
      void this.#publish();
    }, GATHER).unref();
  }

  async #publish(): Promise<void> {
    const doubtful = [...this.#doubtful];
    this.#doubtful.clear();
    const groups = Map.groupBy(this.#audiences, ({ viewer }) => viewer.principal);
    // Nobody is there to be told, and whoever comes later begins with the lists of then.
    for (const principal of [...this.#views.keys()])
      if (!groups.has(principal)) this.#views.delete(principal);
    for (const [principal, [first]] of groups) {
      if (this.#isStopped) return;
      void this.#look(this.#viewOf(principal), first!.viewer, doubtful, (kind) => {
        for (const audience of this.#audiences)
          if (audience.viewer.principal === principal) audience.tell(kind);
      });
      // Many views are not looked at in one go: others are waiting to be answered.
      await nextTurn();
    }
  }

  /** A source that takes its time keeps nobody from being told of the rest. */
  async #look(
    view: View,
    viewer: Viewer,
    doubtful: readonly ListKind[],
    changed: (kind: ListKind) => void,
  ): Promise<void> {
    // Before they are looked at, which makes the list anew.
    const wasMissed = doubtful.includes("tools") && this.#hasMissed(view, viewer);
    await Promise.all(
      doubtful.map(async (kind) => {
        const isOther = await view[kind].look(() => this.#read(kind, viewer));
        if (isOther || (kind === "tools" && wasMissed)) changed(kind);
      }),
    );
  }

  /** What changed and changed back, somebody may have listed in between. */
  #hasMissed(view: View, viewer: Viewer): boolean {
    const { lists, registry } = this.#parts;
    const { version } = registry.snapshot();
    const { lookedAt } = view;
    const made = lists.lastMade(viewer);
    view.lookedAt = version;
    return lookedAt !== undefined && made !== undefined && made > lookedAt && made < version;
  }

  #read(kind: ListKind, viewer: Viewer): unknown {
    const { lists, offerings } = this.#parts;
    if (kind === "tools") return lists.of(viewer).tools;
    const reader = viewer.reader(new AbortController().signal);
    if (kind === "prompts") return offerings.prompts(reader);
    // A skill shows as resources.
    return Promise.all([
      offerings.resources(reader),
      offerings.resourceTemplates(reader),
      offerings.skills(reader),
    ]);
  }

  #viewOf(principal: string): View {
    const known = this.#views.get(principal);
    const view = known ?? {
      tools: new KnownList(),
      prompts: new KnownList(),
      resources: new KnownList(),
      lookedAt: undefined,
    };
    this.#views.delete(principal);
    this.#views.set(principal, view);
    const [oldest] = this.#views.keys();
    if (this.#views.size > MOST_VIEWS && oldest !== undefined) this.#views.delete(oldest);
    return view;
  }
}

type Listener = (event: ServerEvent) => void;

/**
 * Where the streams of `subscriptions/listen` hear of changes. The SDK does not say whose stream it is that begins to
 * listen; what is done for a viewer's request is known to be so here.
 */
export class ListenBus implements ServerEventBus {
  readonly #join: (audience: Audience) => () => void;
  readonly #viewers = new AsyncLocalStorage<Viewer>();
  readonly #listeners = new Set<Listener>();

  constructor(join: (audience: Audience) => () => void) {
    this.#join = join;
  }

  /** Whoever begins to listen in the course of this work is the viewer. */
  listenAs<Result>(viewer: Viewer, work: () => Result): Result {
    return this.#viewers.run(viewer, work);
  }

  /** Everybody hears of it. */
  publish(event: ServerEvent): void {
    for (const listener of this.#listeners) heard(listener, event);
  }

  subscribe(listener: Listener): () => void {
    const viewer = this.#viewers.getStore();
    this.#listeners.add(listener);
    const leave = viewer && this.#join({ viewer, tell: (kind) => heard(listener, { kind: events[kind] }) });
    return () => {
      this.#listeners.delete(listener);
      leave?.();
    };
  }
}

const events = {
  tools: "tools_list_changed",
  prompts: "prompts_list_changed",
  resources: "resources_list_changed",
} as const satisfies Record<ListKind, ServerEvent["kind"]>;

/** A stream that fails keeps no other from hearing. */
function heard(listener: Listener, event: ServerEvent): void {
  try {
    listener(event);
  } catch {}
}

interface Watched {
  readonly viewer: Viewer;
  readonly end: () => void;
}

export interface ExpertWatchParts {
  /** Without it there are no experts. */
  readonly experts?: ExpertResolver;
  /** By its id alone: another one may be called by the id of this one. */
  readonly expertById?: (id: string) => ExpertView | undefined;
  /** Calls the listener whenever an expert may be another one, until the function that it answers is called. */
  readonly onExpertsChanged?: (listener: () => void) => () => void;
}

/**
 * Keeps those who stay connected in step with their expert: they see what it has now, and end with it. What is watched
 * costs nothing until an expert changes.
 */
export class ExpertWatch {
  readonly #find: (id: string) => ExpertView | undefined;
  readonly #watched = new Set<Watched>();
  readonly #unsubscribe: () => void;

  constructor({ expertById = () => undefined, onExpertsChanged = () => () => {} }: ExpertWatchParts) {
    this.#find = expertById;
    this.#unsubscribe = onExpertsChanged(() => {
      for (const watched of [...this.#watched]) this.#look(watched);
    });
  }

  /** Calls `end`, which must not throw, when the expert is gone or no longer the viewer's. Returns how to watch no more. */
  watch(viewer: Viewer, end: () => void): () => void {
    if (viewer.expert === undefined) return () => {};
    const watched = { viewer, end };
    this.#watched.add(watched);
    // It may have changed before it was watched. Whoever asks has to know first how to watch no more.
    queueMicrotask(() => this.#look(watched));
    return () => this.#watched.delete(watched);
  }

  close(): void {
    this.#unsubscribe();
    this.#watched.clear();
  }

  #look(watched: Watched): void {
    const { viewer, end } = watched;
    const { expert, grant } = viewer;
    if (expert === undefined || !this.#watched.has(watched)) return;
    const now = this.#find(expert.id);
    if (now !== undefined && mayUseExpert(grant, now)) {
      viewer.renew(now);
      return;
    }
    this.#watched.delete(watched);
    viewer.renew(nothingOf(expert));
    end();
  }
}

/** For what is still under way when its expert is gone. */
function nothingOf({ id, name }: ExpertView): ExpertView {
  return { id, name, version: "gone", allow: () => false };
}

/** What a client may be told while it waits. */
export type Notice =
  | { readonly kind: "progress"; readonly update: ProgressUpdate }
  | { readonly kind: "message"; readonly method: string; readonly params: object };

/** How many notices wait for the client to be told them; a client that is slower than the tool misses the rest. */
const MOST = 100;
/** How long they may be together, in characters; one by itself may be longer. */
const LONGEST = 256 * 1024;

/** What is to be told, as long as it has not been. Of more than that, the latest progress and the first messages. */
export class NoticeQueue {
  #notices: Notice[] = [];
  #length = 0;
  #dropped = 0;

  get isEmpty(): boolean {
    return this.#notices.length === 0;
  }

  add(notice: Notice): void {
    const length = lengthOf(notice);
    const count = this.#notices.length;
    const isFull = count >= MOST || (count > 0 && this.#length + length > LONGEST);
    if (isFull && notice.kind === "message") {
      this.#dropped++;
      return;
    }
    // Where there is too much of it, only the latest progress is news.
    if (isFull) this.#keepMessages();
    this.#notices.push(notice);
    this.#length += length;
  }

  /** All of it, which is then no longer here. */
  take(): readonly Notice[] {
    const notices = this.#notices;
    const dropped = this.#dropped;
    this.#notices = [];
    this.#length = 0;
    this.#dropped = 0;
    if (dropped === 0) return notices;
    const data = `${dropped} messages were left out: they came faster than they could be told.`;
    const params = { level: "warning", logger: "toolrack", data };
    return [...notices, { kind: "message", method: "notifications/message", params }];
  }

  #keepMessages(): void {
    this.#notices = this.#notices.filter(({ kind }) => kind === "message");
    this.#length = this.#notices.reduce((sum, notice) => sum + lengthOf(notice), 0);
  }
}

/** About as long as the client is told it. */
function lengthOf(notice: Notice): number {
  if (notice.kind === "progress") return notice.update.message?.length ?? 0;
  const { data = notice.params } = notice.params as { data?: unknown };
  if (typeof data === "string") return data.length;
  try {
    return JSON.stringify(data).length;
  } catch {
    // Who tells it will find out what is wrong with it.
    return 0;
  }
}

/** Whether a message, once it is read as JSON, says no more when it is said twice: that something has changed. */
export function isNews(message: object): boolean {
  if ("id" in message || !("method" in message) || typeof message.method !== "string") return false;
  return message.method.endsWith("/list_changed") || message.method === "notifications/resources/updated";
}

/** How many resources one client may watch by one request or in one session. */
export const mostWatched = 256;

interface Listened {
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
