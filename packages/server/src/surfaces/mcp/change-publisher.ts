import { setImmediate as nextTurn } from "node:timers/promises";
import type { Audience, ListKind } from "./audience.ts";
import { KnownList } from "./known-list.ts";
import type { McpParts } from "./mcp-parts.ts";
import type { Viewer } from "./viewer.ts";

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
      parts.registry.subscribe((event) => {
        if (event.type === "tools") this.#gather(["tools"]);
      }),
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
