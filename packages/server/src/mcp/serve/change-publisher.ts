import { createHash } from "node:crypto";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { ToolRegistry } from "@toolrack/core";
import type { Offerings } from "../../calls/index.ts";
import { RecentMap } from "../../helpers/index.ts";
import { lists as allKinds, type ListName } from "../wire/index.ts";
import { type Caller, type ExpertResolver, type ExpertView, mayUseExpert } from "./caller.ts";
import type { Listener } from "./session.ts";
import type { ToolLists } from "./tool-lists.ts";

/** How long changes are gathered before clients are told, in milliseconds. A reload makes several changes. */
const GATHER = 50;
/** How many `View`s are kept. */
const MOST_VIEWS = 256;

interface PublisherServices extends ExpertSource {
  readonly registry: ToolRegistry;
  readonly offerings: Offerings;
  readonly lists: ToolLists;
}

/** What the clients with the same identity were last known to see in each list. */
interface View extends Readonly<Record<ListName, KnownList>> {
  /** The version of the rack when the tools were last compared. */
  comparedVersion: number | undefined;
  /** The version of the clients' expert that these lists belong to. Undefined without an expert. */
  expertVersion: string | number | undefined;
}

/**
 * Tells clients which of their lists have changed. A source may report a change that a client cannot see,
 * since each client sees only a part of the rack. So each list of a connected client is compared with its
 * last known content.
 */
export class ChangePublisher {
  readonly #services: PublisherServices;
  readonly #listeners = new Map<Listener, Caller>();
  /** The views by identity. */
  readonly #views = new RecentMap<string, View>(MOST_VIEWS);
  readonly #stops: readonly (() => void)[];
  #gathering: NodeJS.Timeout | undefined;
  /** Lists that may have changed since clients were last told. */
  readonly #maybeChanged = new Set<ListName>();
  #isStopped = false;

  constructor(services: PublisherServices) {
    this.#services = services;
    this.#stops = [
      services.registry.subscribe(() => this.#gather(["tools"]), ["tools"]),
      services.offerings.subscribe((change) => {
        if (change.kind === "resource") {
          for (const listener of [...this.#listeners.keys()]) listener.resourceUpdated(change.uri);
        }
        // Skills appear among the resources.
        else this.#gather([change.kind === "prompts" ? "prompts" : "resources"]);
      }),
      services.onExpertsChanged(() => this.#gather(allKinds, this.#viewsOfChangedExperts())),
    ];
  }

  get size(): number {
    return this.#listeners.size;
  }

  /** Tells the listener when a list or resource of the caller changes. Returns a function that stops it. */
  join(caller: Caller, listener: Listener): () => void {
    this.#listeners.set(listener, caller);
    const { identity } = caller;
    // Remembers the lists as they are now, to compare them later.
    if (!this.#views.has(identity)) void this.#compare(this.#viewOf(caller), caller, allKinds, () => {});
    return () => this.#listeners.delete(listener);
  }

  stop(): void {
    this.#isStopped = true;
    clearTimeout(this.#gathering);
    for (const stop of this.#stops) stop();
    for (const listener of [...this.#listeners.keys()]) listener.stopped?.();
    this.#listeners.clear();
  }

  /** `concerned`: the views whose lists may have changed. Default: all. */
  #gather(kinds: readonly ListName[], concerned: Iterable<View> = this.#views.values()): void {
    for (const kind of kinds) this.#maybeChanged.add(kind);
    for (const view of concerned) for (const kind of kinds) view[kind].markMaybeChanged();
    this.#gathering ??= setTimeout(() => {
      this.#gathering = undefined;
      void this.#publish();
    }, GATHER).unref();
  }

  /** A change of one expert concerns neither the clients of others nor those without an expert. */
  #viewsOfChangedExperts(): Set<View> {
    const changed = new Set<View>();
    for (const { expert, identity } of this.#listeners.values()) {
      const view = this.#views.get(identity);
      if (expert === undefined || view === undefined) continue;
      const version = this.#services.expertById(expert.id)?.version;
      if (version !== undefined && version === view.expertVersion) continue;
      view.expertVersion = version;
      changed.add(view);
    }
    return changed;
  }

  async #publish(): Promise<void> {
    const maybeChanged = [...this.#maybeChanged];
    this.#maybeChanged.clear();
    const callers = new Map(Array.from(this.#listeners.values(), (caller) => [caller.identity, caller]));
    // Views without a connected client are dropped. A client that comes later starts with the lists of that time.
    for (const identity of [...this.#views.keys()]) if (!callers.has(identity)) this.#views.delete(identity);
    for (const [identity, first] of callers) {
      if (this.#isStopped) return;
      const known = this.#views.get(identity);
      const kinds =
        known === undefined ? maybeChanged : allKinds.filter((kind) => known[kind].isMaybeChanged);
      if (kinds.length === 0) continue;
      void this.#compare(this.#viewOf(first), first, kinds, (kind) => {
        for (const [listener, caller] of [...this.#listeners])
          if (caller.identity === identity) listener.listChanged(kind);
      });
      // Comparing many views takes time, so other requests get a turn in between.
      await nextTurn();
    }
  }

  /** Calls `changed` for each list that changed. A slow source does not delay the other lists. */
  async #compare(
    view: View,
    caller: Caller,
    kinds: readonly ListName[],
    changed: (kind: ListName) => void,
  ): Promise<void> {
    // Must come before the comparison, which makes a new list and so changes `lastMade`.
    const wasMissed = kinds.includes("tools") && this.#hasMissed(view, caller);
    await Promise.all(
      kinds.map(async (kind) => {
        const isChanged = await view[kind].compare(() => this.#read(kind, caller));
        if (isChanged || (kind === "tools" && wasMissed)) changed(kind);
      }),
    );
  }

  /**
   * Whether a client may have listed the tools between two changes. If the second change undid the first,
   * comparing the lists shows no difference, although the client has an outdated list.
   */
  #hasMissed(view: View, caller: Caller): boolean {
    const { lists, registry } = this.#services;
    const { version } = registry.snapshot();
    const { comparedVersion } = view;
    const made = lists.lastMade(caller);
    view.comparedVersion = version;
    return comparedVersion !== undefined && made !== undefined && made > comparedVersion && made < version;
  }

  #read(kind: ListName, caller: Caller): unknown {
    const { lists, offerings } = this.#services;
    if (kind === "tools") return lists.of(caller).tools;
    const reader = caller.reader(new AbortController().signal);
    if (kind === "prompts") return offerings.prompts(reader);
    // Skills appear among the resources.
    return Promise.all([
      offerings.resources(reader),
      offerings.resourceTemplates(reader),
      offerings.skills(reader),
    ]);
  }

  #viewOf({ identity, expert }: Caller): View {
    const view = this.#views.get(identity) ?? {
      tools: new KnownList(),
      prompts: new KnownList(),
      resources: new KnownList(),
      comparedVersion: undefined,
      expertVersion: expert?.version,
    };
    this.#views.set(identity, view);
    return view;
  }
}

/** The digest of a list as it was last read. */
class KnownList {
  #digest: string | undefined;
  #marks = 0;
  /** How many marks there were when the last comparison began. */
  #comparedMarks = 0;

  /** Whether it may have changed since the last comparison began. */
  get isMaybeChanged(): boolean {
    return this.#marks !== this.#comparedMarks;
  }

  markMaybeChanged(): void {
    this.#marks++;
  }

  /** Reads the list. Resolves to whether it changed since the last reading, or may have. Never rejects. */
  async compare(read: () => unknown): Promise<boolean> {
    const before = this.#digest;
    const marks = this.#marks;
    this.#comparedMarks = marks;
    const now = await digestOf(read);
    // A change during the read may or may not be in the digest, so the digest is not kept.
    this.#digest = marks === this.#marks ? now : undefined;
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
  /** Finds an expert by its name or id. */
  readonly experts: ExpertResolver;
  /** Finds an expert by its id alone, because an expert may have the id of another one as its name. */
  readonly expertById: (id: string) => ExpertView | undefined;
  /** Calls the listener whenever an expert may have changed. Returns a function that stops it. */
  readonly onExpertsChanged: (listener: () => void) => () => void;
}

interface Watched {
  readonly caller: Caller;
  readonly end: () => void;
}

/**
 * Gives connected clients the current version of their expert, and ends their connections when the expert is
 * removed or they may no longer use it. Watching costs nothing until an expert changes.
 */
export class ExpertWatch {
  readonly #source: ExpertSource;
  readonly #watched = new Set<Watched>();
  readonly #unsubscribe: () => void;

  constructor(source: ExpertSource) {
    this.#source = source;
    this.#unsubscribe = source.onExpertsChanged(() => {
      for (const watched of [...this.#watched]) this.#check(watched);
    });
  }

  /**
   * Calls `end`, which must not throw, when the expert is gone or the caller may no longer use it. Returns a function
   * that stops watching.
   */
  watch(caller: Caller, end: () => void): () => void {
    if (caller.expert === undefined) return () => {};
    const watched = { caller, end };
    this.#watched.add(watched);
    // The expert may have changed already. The check runs later, because the caller of `watch` needs the
    // returned function first.
    queueMicrotask(() => this.#check(watched));
    return () => this.#watched.delete(watched);
  }

  close(): void {
    this.#unsubscribe();
    this.#watched.clear();
  }

  #check(watched: Watched) {
    const { caller, end } = watched;
    const { expert, grant } = caller;
    if (expert === undefined || !this.#watched.has(watched)) return;
    const now = this.#source.expertById(expert.id);
    if (now !== undefined && mayUseExpert(grant, now)) return caller.renew(now);
    this.#watched.delete(watched);
    // Open requests of a removed expert see no tools any more.
    caller.renew({ id: expert.id, name: expert.name, version: "gone", allow: () => false });
    end();
  }
}
