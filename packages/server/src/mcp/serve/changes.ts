import { createHash } from "node:crypto";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { ToolRegistry } from "@toolrack/core";
import type { Offerings } from "../../calls/index.ts";
import { type Caller, type ExpertResolver, type ExpertView, mayUseExpert } from "./caller.ts";
import type { ToolLists } from "./lists.ts";

export type ListKind = "tools" | "prompts" | "resources";

/** A client that is told of changes, as long as it is connected. None of it throws. */
export interface Listener {
  listChanged(kind: ListKind): void;
  /** The content of any resource is another one, whether the client listens to it or not. */
  resourceUpdated(uri: string): void;
  /** The server stops. */
  stopped?(): void;
}

/** How long changes are gathered before clients are told of them, in milliseconds: a reload makes several. */
const GATHER = 50;
/** How many views are remembered of which nobody is connected just now. */
const MOST_VIEWS = 256;

interface PublisherRooms extends ExpertSource {
  readonly registry: ToolRegistry;
  readonly offerings: Offerings;
  readonly lists: ToolLists;
}

interface View extends Readonly<Record<ListKind, KnownList>> {
  /** The version of the rack at which its tools were last looked at. */
  lookedAt: number | undefined;
}

const kinds: readonly ListKind[] = ["tools", "prompts", "resources"];

/**
 * Tells clients which of their lists have changed. Each client sees a part of the rack only, and sources tell of more
 * than what has changed: so those lists of everybody who is connected are looked at that may have.
 */
export class ChangePublisher {
  readonly #rooms: PublisherRooms;
  readonly #listeners = new Map<Listener, Caller>();
  /** What the lists of each view were when they were last looked at. Of many, those that were used last. */
  readonly #views = new Map<string, View>();
  readonly #stops: readonly (() => void)[];
  #gathering: NodeJS.Timeout | undefined;
  /** Lists that may have changed since clients were last told. */
  readonly #doubtful = new Set<ListKind>();
  #isStopped = false;

  constructor(rooms: PublisherRooms) {
    this.#rooms = rooms;
    this.#stops = [
      rooms.registry.subscribe(() => this.#gather(["tools"]), ["tools"]),
      rooms.offerings.subscribe((change) => {
        if (change.kind === "resource") {
          for (const listener of [...this.#listeners.keys()]) listener.resourceUpdated(change.uri);
        }
        // A skill shows as resources.
        else this.#gather([change.kind === "prompts" ? "prompts" : "resources"]);
      }),
      rooms.onExpertsChanged?.(() => this.#gather(kinds)) ?? (() => {}),
    ];
  }

  get size(): number {
    return this.#listeners.size;
  }

  /** Tells this client too, of what its caller sees. Returns a function that stops it. */
  join(caller: Caller, listener: Listener): () => void {
    this.#listeners.set(listener, caller);
    const { identity } = caller;
    // Only what somebody may have seen can be another one.
    if (!this.#views.has(identity)) void this.#look(this.#viewOf(identity), caller, kinds, () => {});
    return () => this.#listeners.delete(listener);
  }

  stop(): void {
    this.#isStopped = true;
    clearTimeout(this.#gathering);
    for (const stop of this.#stops) stop();
    for (const listener of [...this.#listeners.keys()]) listener.stopped?.();
    this.#listeners.clear();
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
    const callers = new Map(Array.from(this.#listeners.values(), (caller) => [caller.identity, caller]));
    // Nobody is there to be told, and whoever comes later begins with the lists of then.
    for (const identity of [...this.#views.keys()]) if (!callers.has(identity)) this.#views.delete(identity);
    for (const [identity, first] of callers) {
      if (this.#isStopped) return;
      void this.#look(this.#viewOf(identity), first, doubtful, (kind) => {
        for (const [listener, caller] of [...this.#listeners])
          if (caller.identity === identity) listener.listChanged(kind);
      });
      // Many views are not looked at in one go: others are waiting to be answered.
      await nextTurn();
    }
  }

  /** A source that takes its time keeps nobody from being told of the rest. */
  async #look(
    view: View,
    caller: Caller,
    doubtful: readonly ListKind[],
    changed: (kind: ListKind) => void,
  ): Promise<void> {
    // Before they are looked at, which makes the list anew.
    const wasMissed = doubtful.includes("tools") && this.#hasMissed(view, caller);
    await Promise.all(
      doubtful.map(async (kind) => {
        const isOther = await view[kind].look(() => this.#read(kind, caller));
        if (isOther || (kind === "tools" && wasMissed)) changed(kind);
      }),
    );
  }

  /** What changed and changed back, somebody may have listed in between. */
  #hasMissed(view: View, caller: Caller): boolean {
    const { lists, registry } = this.#rooms;
    const { version } = registry.snapshot();
    const { lookedAt } = view;
    const made = lists.lastMade(caller);
    view.lookedAt = version;
    return lookedAt !== undefined && made !== undefined && made > lookedAt && made < version;
  }

  #read(kind: ListKind, caller: Caller): unknown {
    const { lists, offerings } = this.#rooms;
    if (kind === "tools") return lists.of(caller).tools;
    const reader = caller.reader(new AbortController().signal);
    if (kind === "prompts") return offerings.prompts(reader);
    // A skill shows as resources.
    return Promise.all([
      offerings.resources(reader),
      offerings.resourceTemplates(reader),
      offerings.skills(reader),
    ]);
  }

  #viewOf(identity: string): View {
    const view = this.#views.get(identity) ?? {
      tools: new KnownList(),
      prompts: new KnownList(),
      resources: new KnownList(),
      lookedAt: undefined,
    };
    this.#views.delete(identity);
    this.#views.set(identity, view);
    const [oldest] = this.#views.keys();
    if (this.#views.size > MOST_VIEWS && oldest !== undefined) this.#views.delete(oldest);
    return view;
  }
}

/** A list as it was when it was last looked at. */
class KnownList {
  #known: string | undefined;
  #doubts = 0;

  /** To be called when it may have changed. */
  doubt(): void {
    this.#doubts++;
  }

  /** Says whether it is another one than before. In doubt it is. Never rejects. */
  async look(read: () => unknown): Promise<boolean> {
    const before = this.#known;
    const doubts = this.#doubts;
    const now = await digestOf(read);
    // What changed while it was being read may be in it or not.
    this.#known = doubts === this.#doubts ? now : undefined;
    return now === undefined || now !== before;
  }
}

async function digestOf(read: () => unknown): Promise<string | undefined> {
  try {
    return createHash("sha256")
      .update(JSON.stringify(await read()))
      .digest("base64");
  } catch {
    return undefined;
  }
}

export interface ExpertSource {
  /** Without it there are no experts. */
  readonly experts?: ExpertResolver;
  /** By its id alone: another one may be called by the id of this one. */
  readonly expertById?: (id: string) => ExpertView | undefined;
  /** Calls the listener whenever an expert may be another one. Returns a function that stops it. */
  readonly onExpertsChanged?: (listener: () => void) => () => void;
}

interface Watched {
  readonly caller: Caller;
  readonly end: () => void;
}

/**
 * Keeps clients that stay connected in step with their expert: they see what it has now, and end with it. What is
 * watched costs nothing until an expert changes.
 */
export class ExpertWatch {
  readonly #find: (id: string) => ExpertView | undefined;
  readonly #watched = new Set<Watched>();
  readonly #unsubscribe: () => void;

  constructor({ expertById = () => undefined, onExpertsChanged = () => () => {} }: ExpertSource) {
    this.#find = expertById;
    this.#unsubscribe = onExpertsChanged(() => {
      for (const watched of [...this.#watched]) this.#look(watched);
    });
  }

  /**
   * Calls `end`, which must not throw, when the expert is gone or no longer the caller's. Returns a function that stops
   * watching.
   */
  watch(caller: Caller, end: () => void): () => void {
    if (caller.expert === undefined) return () => {};
    const watched = { caller, end };
    this.#watched.add(watched);
    // It may have changed before it was watched. The function that stops watching has to be known first.
    queueMicrotask(() => this.#look(watched));
    return () => this.#watched.delete(watched);
  }

  close(): void {
    this.#unsubscribe();
    this.#watched.clear();
  }

  #look(watched: Watched) {
    const { caller, end } = watched;
    const { expert, grant } = caller;
    if (expert === undefined || !this.#watched.has(watched)) return;
    const now = this.#find(expert.id);
    if (now !== undefined && mayUseExpert(grant, now)) return caller.renew(now);
    this.#watched.delete(watched);
    // For what is still under way when its expert is gone.
    caller.renew({ id: expert.id, name: expert.name, version: "gone", allow: () => false });
    end();
  }
}
