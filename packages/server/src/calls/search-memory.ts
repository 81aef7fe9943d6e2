import type { Logger, ToolCallRecord, ToolInfo } from "@toolrack/core";
import { type Grant, masterGrant } from "../access/index.ts";
import { inSlices, RecentMap, reasonOf } from "../helpers/index.ts";
import type { Following, LearnedSearch, Store } from "../store/index.ts";
import type { CallBook, CallFollower, LiveCall } from "./call-book.ts";
import { callToolName, isHelperTool } from "./meta-tools.ts";
import { PastSearches } from "./past-searches.ts";

/** What a search has shown to somebody. */
interface ShownSearch {
  readonly query: string;
  readonly tools: ReadonlySet<string>;
  readonly sessionID: string;
  readonly at: number;
}

interface SearchMemoryParts {
  readonly book: CallBook;
  readonly store: Pick<Store, "searches" | "follower">;
  readonly logger: Logger;
  /** `false`: the config says that nothing is to be learned. */
  readonly learning?: boolean | undefined;
}

/** How long after a search a call still counts as its outcome, in milliseconds. */
const OUTCOME_LIMIT = 10 * 60_000;
/** How many searches wait for their outcome, of one owner and in all. */
const MOST_OF_OWNER = 20;
const MOST_OWNERS = 500;
/** How many of the tools that a search found count as shown. */
const MOST_SHOWN = 20;
/** Characters. Up to ten thousand searches wait for their outcome. */
const LONGEST_QUERY = 2_000;
/** Seconds between two looks for what other servers of the workspace have learned. */
const LOOK_SECONDS = 5;

/**
 * Learns from use: a search that was followed by a call of a tool that it had shown is remembered, and helps later searches
 * with like words. Keeps the words and the tool's name, nothing of the call. The searches of all callers help all, but
 * each caller finds only tools that it may use, and sees only its own searches.
 */
export class SearchMemory implements CallFollower {
  readonly #book: CallBook;
  readonly #store: SearchMemoryParts["store"];
  readonly #logger: Logger;
  /** Whether the config lets the rack learn. */
  readonly isAllowed: boolean;
  readonly #past = new PastSearches(() => this.#open());
  /** Searches whose outcome is not known yet, by owner; the owner who searched last is last. */
  readonly #shown = new RecentMap<string, ShownSearch[]>(MOST_OWNERS);
  #unfollow: (() => void) | undefined;
  #following: Following | undefined;
  #isOn = true;
  #version = -1;
  #newest = 0;
  #writing: Promise<void> = Promise.resolve();

  constructor({ book, store, logger, learning = true }: SearchMemoryParts) {
    this.#book = book;
    this.#store = store;
    this.#logger = logger;
    this.isAllowed = learning;
    if (learning) book.registry.helpSearch(this.#past);
  }

  /** Must be called with what a search has shown to a caller. Costs nothing while nothing is learned. */
  noteShown(
    who: Grant | { readonly callId: string },
    query: string,
    tools: readonly ToolInfo[],
    sessionID = "",
  ): void {
    if (!this.isAllowed || !this.#isOn || query.trim() === "" || query.length > LONGEST_QUERY) return;
    const owner = "callId" in who ? this.#book.get(who.callId)?.owner : ownerOf(who);
    if (owner === undefined) return;
    const shown = new Set(tools.slice(0, MOST_SHOWN).map(({ name }) => name));
    const own = this.#shown.get(owner) ?? [];
    this.#shown.set(
      owner,
      [...own, { query, tools: shown, sessionID, at: Date.now() }].slice(-MOST_OF_OWNER),
    );
    this.#unfollow ??= this.#book.follow(this);
  }

  /** Learns when a call has succeeded whose tool its caller was shown. Calls that tools make by themselves teach nothing. */
  ended(call: LiveCall | undefined, record: ToolCallRecord): void {
    if (call === undefined || record.status !== "completed" || isHelperTool(call.toolName)) return;
    const parent = call.parentCallId === undefined ? undefined : this.#book.get(call.parentCallId);
    if (call.grant === undefined && parent?.toolName !== callToolName) return;
    const { owner, toolName, sessionID } = call;
    const search = this.#shown
      .get(owner)
      ?.findLast(
        (one) =>
          one.tools.has(toolName) &&
          Date.now() - one.at <= OUTCOME_LIMIT &&
          (one.sessionID === "" || sessionID === "" || one.sessionID === sessionID),
      );
    if (search === undefined || !this.#isOn) return;
    const { registry } = this.#book;
    // What holds a secret is not kept at all: with the secret masked, the words would say something else.
    if (registry.secretMask.inText(search.query) !== search.query) return;
    this.#writing = this.#writing
      .then(() => this.#store.searches.add({ query: search.query, toolName, owner }))
      .then((learned) => this.#learn([learned]))
      .catch((error) => this.#logger.debug("A search could not be remembered:", error));
  }

  /** What the caller may see: an admin everything, everybody else their own. The last used first, and how many there are. */
  async list(grant: Grant, limit: number): Promise<{ items: LearnedSearch[]; total: number }> {
    await this.#writing;
    const { searches } = this.#store;
    const own = grant.admin ? {} : { owner: ownerOf(grant) };
    return { items: await searches.list({ ...own, limit }), total: await searches.count(own) };
  }

  /** Forgets one search, or all that the caller may see. Returns how many. */
  async forget(grant: Grant, id?: string): Promise<number> {
    await this.#writing;
    const owner = grant.admin ? {} : { owner: ownerOf(grant) };
    const removed = await this.#store.searches.remove({ ...owner, ...(id !== undefined && { id }) });
    await this.#refresh();
    return removed;
  }

  /** Whether searches are learned and help others now. */
  async isLearning(): Promise<boolean> {
    return this.isAllowed && (await this.#store.searches.state()).isOn;
  }

  /** Switched off, what was learned stays but helps nobody, until it is forgotten or the switch is on again. */
  async setLearning(isOn: boolean): Promise<void> {
    await this.#store.searches.setOn(isOn);
    await this.#refresh();
  }

  /** Resolves when what was learned is written. */
  async close(): Promise<void> {
    this.#unfollow?.();
    await this.#following?.stop();
    await this.#writing;
  }

  /** Reads what was learned, before the first search. */
  async #open(): Promise<void> {
    await this.#refresh();
    this.#following ??= this.#store.follower.follow("searches", {
      seconds: LOOK_SECONDS,
      refresh: () => this.#refresh(),
      failed: (error) =>
        this.#logger.debug(`What other servers have learned could not be read: ${reasonOf(error)}`),
    });
  }

  async #refresh(): Promise<void> {
    if (!this.isAllowed) return;
    const { isOn, version } = await this.#store.searches.state();
    const isOther = version !== this.#version;
    if (isOther) this.#newest = 0;
    if (!isOn) this.#shown.clear();
    this.#isOn = isOn;
    this.#version = version;
    const learned = isOn ? await this.#store.searches.list({ since: this.#newest }) : [];
    if (isOther) this.#past.keepOnly(new Set(learned.map(({ id }) => id)));
    // Ten thousand take most of a second. What another change has made outdated meanwhile is not learned.
    await inSlices(learned.values(), (search) => {
      if (version === this.#version) this.#learn([search]);
    });
  }

  #learn(searches: readonly LearnedSearch[]): void {
    for (const { usedAt } of searches) this.#newest = Math.max(this.#newest, usedAt);
    if (this.#isOn) this.#past.add(searches);
  }
}

function ownerOf({ id, caller }: Grant): string {
  return id === masterGrant.id ? "" : caller;
}
