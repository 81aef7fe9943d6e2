import type { Logger, ToolContext } from "@toolrack/core";
import { unlessAborted } from "../../async/unless-aborted.ts";
import type { DependencyStore } from "../../dependencies/dependency-store.ts";
import { pauseAfter } from "./backoff.ts";
import { Bulkhead } from "./bulkhead.ts";
import { type Catalogue, changedLists, emptyCatalogue, type UpstreamTool } from "./catalogue/catalogue.ts";
import { readCatalogue } from "./catalogue/read-catalogue.ts";
import type { Surroundings } from "./config/expand.ts";
import { resolveEntry } from "./config/resolve-entry.ts";
import { isLocal, type ServerEntry, type ServerLimits } from "./config/server-entry.ts";
import { asksForCredentials, ConfigurationError, stateAfter } from "./failure-state.ts";
import { RecentLines } from "./process/recent-lines.ts";
import { parameterHeaders } from "./protocol/parameter-headers.ts";
import type { LaneRequest } from "./protocol/request-lane.ts";
import { ToolRequest } from "./protocol/tool-request.ts";
import { UpstreamError } from "./protocol/upstream-error.ts";
import type { ListName, UpstreamSession } from "./protocol/upstream-session.ts";
import { fingerprintOf, stillHolds, type Verdict } from "./protocol/verdict.ts";
import { RereadTimer } from "./reread-timer.ts";
import { RestTimer } from "./rest-timer.ts";
import type { SignIn } from "./sign-in/sign-in.ts";
import { circuitOf, describeAbsence, type UpstreamState, type UpstreamStatus } from "./upstream-status.ts";

export interface UpstreamParts {
  readonly key: string;
  readonly entry: ServerEntry;
  /** Where the entry stands, for messages: `mcp.json` or `mcp_servers`. */
  readonly place: string;
  readonly isEnabled: boolean;
  readonly surroundings: Surroundings;
  readonly clientInfo: { readonly name: string; readonly version: string };
  /** Where packages are installed. */
  readonly packages: Pick<DependencyStore, "install">;
  readonly mask: (text: string) => string;
  readonly logger: Logger;
  /** Undefined where nobody can sign in: a process, or a server that is sent credentials of its entry. */
  readonly signIn: Pick<SignIn, "headers" | "distrust" | "renewAt" | "want"> | undefined;
  /** From an earlier time. */
  readonly verdict: Verdict | undefined;
  readonly catalogue: Catalogue | undefined;
  onState(): void;
  onVerdict(verdict: Verdict | undefined): void;
  onCatalogue(catalogue: Catalogue, changed: readonly ListName[]): void;
  onResourceUpdated(uri: string): void;
}

const defaults = {
  connect: 60_000,
  list: 30_000,
  concurrency: 16,
  queue: 256,
  question: 300_000,
  refresh: 600_000,
} as const satisfies ServerLimits;

type Limits = Required<Pick<ServerLimits, keyof typeof defaults>> & ServerLimits;

/** A server that held out for so long starts with a clean slate when it fails. */
const STEADY = 60_000;
const TAIL = 8;
/** A token that has ended when it is given must not keep the rack busy. */
const SHORTEST_PAUSE = 1_000;
/** The longest time that a timer can be set for. */
const LONGEST_PAUSE = 2 ** 31 - 1;
const RENEW_AGAIN = 10_000;
const allLists: readonly ListName[] = ["tools", "prompts", "resources"];

/**
 * One upstream server and the care for it: starts it without making anybody wait, notices when it is gone, tries again
 * with growing pauses, and lets calls fail at once in between.
 */
export class Upstream {
  readonly key: string;
  readonly entry: ServerEntry;
  readonly lines: RecentLines;
  readonly #parts: UpstreamParts;
  #limits: Limits;
  readonly #bulkhead: Bulkhead;
  #state: UpstreamState;
  #reason: string | undefined;
  #since = Date.now();
  #failures = 0;
  #nextAttemptAt: number | undefined;
  #isResting = false;
  /** It was ready a moment ago, and only a session is made anew. */
  #isReopening = false;
  #session: UpstreamSession | undefined;
  /** Those that are no longer used and have not ended yet. */
  readonly #former = new Set<UpstreamSession>();
  #verdict: Verdict | undefined;
  #catalogue: Catalogue;
  /** The attempt under way; resolves when it has ended, however. */
  #starting: Promise<void> | undefined;
  readonly #stop = new AbortController();
  #attemptStop = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  #renewal: NodeJS.Timeout | undefined;
  #resting: RestTimer;
  #readyAt = 0;
  #attemptAt = 0;
  /** When the lists are read again, after a server told of a change or did not for a long time. */
  #rereading: RereadTimer;
  readonly #watched = new Set<string>();

  constructor(parts: UpstreamParts) {
    this.#parts = parts;
    this.key = parts.key;
    this.entry = parts.entry;
    this.lines = new RecentLines(parts.mask);
    this.#limits = { ...defaults, ...parts.entry.toolrack?.limits };
    this.#resting = this.#restTimer();
    this.#rereading = this.#rereadTimer();
    const { concurrency, queue } = this.#limits;
    this.#bulkhead = new Bulkhead(`The MCP server "${parts.key}"`, concurrency, queue);
    this.#verdict = stillHolds(parts.verdict, parts.entry);
    this.#catalogue = parts.catalogue ?? emptyCatalogue;
    this.#state = parts.isEnabled ? "starting" : "disabled";
  }

  get state(): UpstreamState {
    return this.#state;
  }

  get catalogue(): Catalogue {
    return this.#catalogue;
  }

  get status(): UpstreamStatus {
    const session = this.#session;
    const verdict = session?.verdict ?? this.#verdict;
    const serverInfo = session?.serverInfo ?? this.#catalogue.serverInfo;
    return {
      state: this.#state,
      ...(this.#reason === undefined ? {} : { reason: this.#reason }),
      since: this.#since,
      resting: this.#isResting,
      circuit: circuitOf(this.#state, this.#recentFailures),
      failures: this.#recentFailures,
      ...(this.#nextAttemptAt === undefined ? {} : { nextAttemptAt: this.#nextAttemptAt }),
      transport:
        verdict?.transport ?? (isLocal(this.entry) ? "stdio" : this.entry.type === "sse" ? "sse" : "http"),
      ...(verdict === undefined ? {} : { era: verdict.era }),
      ...(session?.protocolVersion === undefined ? {} : { protocolVersion: session.protocolVersion }),
      ...(serverInfo === undefined
        ? {}
        : { serverInfo: { name: serverInfo.name, version: serverInfo.version } }),
      ...(session?.pid === undefined ? {} : { pid: session.pid }),
      inFlight: this.#bulkhead.inside,
      waiting: this.#bulkhead.waiting,
      noise: session?.noise ?? 0,
    };
  }

  /** Returns at once. */
  start(): void {
    if (this.#state === "disabled" || this.#stop.signal.aborted) return;
    this.#attempt();
  }

  /** Ends it, and resolves when nothing of it is left. */
  async stop(): Promise<void> {
    this.#stop.abort();
    this.#attemptStop.abort();
    clearTimeout(this.#timer);
    clearTimeout(this.#renewal);
    this.#resting.end();
    this.#rereading.end();
    await Promise.all([this.#endSessions("It was stopped."), this.#starting]);
  }

  /** Resolves when nothing is left of any of them, also of those that were lost before. */
  async #endSessions(why: string): Promise<void> {
    if (this.#session !== undefined) this.#partWith(this.#session);
    const reason = new UpstreamError("unavailable", why);
    await Promise.all([...this.#former].map((session) => session.close(reason)));
  }

  /** Uses it no longer. It ends once nobody waits for an answer over it. */
  #partWith(session: UpstreamSession): void {
    if (session === this.#session) this.#session = undefined;
    this.#former.add(session);
    void session.retire().finally(() => this.#former.delete(session));
  }

  /** Goes by other limits from now on. What is under way goes on; those of the connection count for the next one. */
  limit(limits: ServerLimits): void {
    this.#limits = { ...defaults, ...limits };
    this.#bulkhead.resize(this.#limits.concurrency, this.#limits.queue);
    this.#resting.end();
    this.#resting = this.#restTimer();
    this.#rereading.end();
    this.#rereading = this.#rereadTimer();
    if (this.#session === undefined) return;
    if (this.#bulkhead.inside === 0) this.#resting.begin();
    // A change that was told of just now is read later than it would have been, and not missed.
    this.#rereading.soon();
  }

  #restTimer(): RestTimer {
    return new RestTimer(isLocal(this.entry) ? this.#limits.rest : undefined, () => this.#rest());
  }

  #rereadTimer(): RereadTimer {
    return new RereadTimer(this.#limits.refresh, () => this.#reread());
  }

  /** Tries anew, whatever happened before. Resolves when it is ready or has failed. */
  async restart(): Promise<void> {
    if (this.#state === "disabled" || this.#stop.signal.aborted) return;
    clearTimeout(this.#timer);
    this.#attemptStop.abort();
    await this.#starting;
    await this.#endSessions("It is being restarted.");
    this.#failures = 0;
    await this.#attempt();
  }

  /** Calls a tool. Rejects with `UpstreamError`, or with the reason of the context's signal. */
  call(tool: UpstreamTool, context: ToolContext): Promise<unknown> {
    const headers = isLocal(this.entry) ? undefined : parameterHeaders(tool.inputSchema, context.input);
    return this.request(new ToolRequest(tool.name, context, headers));
  }

  /** Sends anything else. */
  request(request: UpstreamRequest): Promise<unknown> {
    // Most requests wait for nothing but their answer.
    if (this.#session === undefined || !this.#bulkhead.hasRoom) return this.#requestLater(request);
    void this.#bulkhead.enter(request);
    return this.#send(this.#session, request);
  }

  async #requestLater(request: UpstreamRequest): Promise<unknown> {
    const begin = request.waitingForTurn?.();
    const session = this.#session ?? (await this.#available(request.signal));
    await this.#bulkhead.enter(request);
    begin?.();
    // While it waited, the server may have been started anew.
    return this.#send(this.#session ?? session, request);
  }

  /** To be called by who is inside the bulkhead, which it leaves. */
  #send(session: UpstreamSession, request: UpstreamRequest): Promise<unknown> {
    this.#resting.end();
    return session.request(request).then(
      (result) => {
        this.#leave();
        return result;
      },
      (thrown: unknown) => {
        if (thrown instanceof UpstreamError)
          return this.#recover(thrown, session, request).finally(() => this.#leave());
        this.#leave();
        throw thrown;
      },
    );
  }

  #leave(): void {
    this.#bulkhead.leave();
    if (this.#bulkhead.inside === 0) this.#resting.begin();
  }

  /** Begins to be told of changes of a resource, also after a new start. Answers how to end it. */
  watchResource(uri: string): () => void {
    this.#watched.add(uri);
    void this.#session?.watchResources([uri]);
    return () => {
      this.#watched.delete(uri);
      void this.#session?.unwatchResource(uri);
    };
  }

  /**
   * A lost session is made anew, and so is one whose token has ended, and the request sent once more: the server that
   * refused it has done nothing.
   */
  async #recover(
    error: UpstreamError,
    session: UpstreamSession,
    request: UpstreamRequest,
    isSecond = false,
  ): Promise<unknown> {
    if (error.scope !== undefined) throw this.#missingScope(error, error.scope);
    // Whether the server is still there is seen when its lists are read.
    if (error.kind === "broken" && !isLocal(this.entry)) this.#rereading.soon();
    if (concernsOneRequest.has(error.kind)) throw error;
    if (isSecond && error.kind === "session") throw new UpstreamError("refused", error.message, error.facts);
    const isCurrent = session === this.#session;
    const canGoOn = !isSecond && this.#canGoOn(error, isCurrent);
    if (isCurrent) {
      // Others may still wait for answers over connections of their own.
      this.#partWith(session);
      this.#isReopening = canGoOn;
      if (!canGoOn) this.#failed(error);
    }
    if (!canGoOn) throw this.#unavailable(this.#reason ?? error.message);
    if (this.#session === undefined) await unlessAborted(this.#attempt(), request.signal);
    const again = this.#session;
    if (again === undefined) throw this.#unavailable();
    return again.request(request).catch((thrown: unknown) => {
      if (thrown instanceof UpstreamError) return this.#recover(thrown, again, request, true);
      throw thrown;
    });
  }

  #canGoOn({ kind }: UpstreamError, isCurrent: boolean): boolean {
    if (kind === "session") return true;
    return kind === "unauthorized" && (!isCurrent || this.#parts.signIn?.distrust() === true);
  }

  /** Who signed in may do less than this request needs. Others go on with what they may. */
  #missingScope({ facts }: UpstreamError, scope: string): UpstreamError {
    const wanted = scope === "" ? "more than that" : `the scope "${scope}"`;
    const remedy =
      this.#parts.signIn?.want(scope) ?? "Give its entry a token that covers it, kept as a secret.";
    return new UpstreamError(
      "refused",
      `What the rack was granted there does not cover it: it asks for ${wanted}. ${remedy}`,
      facts,
    );
  }

  /** Waits for a server that starts for the first time or wakes up; fails at once for one that has failed. */
  async #available(signal: AbortSignal): Promise<UpstreamSession> {
    if (this.#isResting) void this.#attempt();
    const isAwaited = this.#isReopening || this.#recentFailures === 0;
    if (isAwaited && this.#starting !== undefined) await unlessAborted(this.#starting, signal);
    if (this.#session === undefined) throw this.#unavailable();
    return this.#session;
  }

  /** How often it failed in a row; one that held out for long starts with a clean slate. */
  get #recentFailures(): number {
    return this.#readyAt > 0 && Date.now() - this.#readyAt > STEADY ? 0 : this.#failures;
  }

  #attempt(): Promise<void> {
    clearTimeout(this.#timer);
    this.#nextAttemptAt = undefined;
    this.#starting ??= this.#connect().finally(() => {
      this.#starting = undefined;
      this.#isReopening = false;
    });
    return this.#starting;
  }

  async #connect(isSecond = false): Promise<void> {
    if (this.#stop.signal.aborted) return;
    this.#isResting = false;
    this.#attemptStop = new AbortController();
    const { signal } = this.#attemptStop;
    this.#attemptAt = Date.now();
    // Where only the token is renewed, calls go on over the session that is there.
    if (this.#session === undefined)
      this.#enter("starting", this.#recentFailures === 0 ? undefined : this.#reason);
    const prior = stillHolds(this.#verdict, this.entry);
    let session: UpstreamSession | undefined;
    try {
      session = await this.#open(prior, signal);
      session.follow({
        onListChanged: () => this.#rereading.soon(),
        onResourceUpdated: (uri) => this.#parts.onResourceUpdated(uri),
        onLost: (reason) => this.#lost(session, reason),
      });
      const catalogue = await this.#read(session);
      await session.watchResources(this.#watched);
      if (signal.aborted || session.isClosed) {
        throw new UpstreamError("unavailable", "It ended before it was ready.");
      }
      this.#ready(session, catalogue);
    } catch (thrown) {
      await session?.close();
      if (signal.aborted) return;
      if (thrown instanceof UpstreamError && thrown.scope !== undefined)
        this.#parts.signIn?.want(thrown.scope);
      else if (!isSecond && asksForCredentials(thrown) && this.#parts.signIn?.distrust())
        return this.#connect(true);
      // What was remembered may be why; then the next attempt finds out anew.
      if (prior !== undefined && isMisunderstanding(thrown)) this.#remember(undefined);
      this.#failed(thrown);
    }
  }

  async #open(prior: Verdict | undefined, signal: AbortSignal): Promise<UpstreamSession> {
    const { key, place, surroundings, clientInfo, packages } = this.#parts;
    const entry = await resolveEntry(this.entry, `${place}: ${key}`, surroundings).catch((error: Error) => {
      throw new ConfigurationError(error.message);
    });
    const credentials = await this.#parts.signIn?.headers();
    // Imported late: a workspace without upstream servers never loads the client.
    const { connectUpstream } = await import("./protocol/connect-upstream.ts");
    return connectUpstream({
      entry: entry.kind === "address" ? { ...entry, headers: { ...entry.headers, ...credentials } } : entry,
      prior,
      fingerprint: fingerprintOf(this.entry),
      lines: this.lines,
      clientInfo,
      packages,
      label: `mcp server ${key}`,
      timeout: this.#limits.connect,
      patience: this.#limits.question,
      signal,
    });
  }

  #ready(session: UpstreamSession, catalogue: Catalogue): void {
    this.#show(catalogue, allLists);
    // What is under way over the one before comes to its end there.
    if (this.#session !== undefined) this.#partWith(this.#session);
    this.#session = session;
    this.#renewLater(this.#parts.signIn?.renewAt);
    this.#readyAt = Date.now();
    this.#remember(session.verdict);
    this.#enter("ready");
    if (!session.tellsOfChanges) this.#rereading.later();
    if (this.#bulkhead.inside === 0) this.#resting.begin();
  }

  /** What cannot be shown is not taken over: then what was shown before stays. */
  #show(catalogue: Catalogue, changed: readonly ListName[]): void {
    const before = this.#catalogue;
    this.#catalogue = catalogue;
    try {
      this.#parts.onCatalogue(catalogue, changed);
    } catch (thrown) {
      this.#catalogue = before;
      throw thrown;
    }
  }

  #lost(session: UpstreamSession | undefined, reason: UpstreamError): void {
    if (session === undefined || session !== this.#session) return;
    this.#partWith(session);
    if (!this.#stop.signal.aborted) this.#failed(reason);
  }

  /** The headers of a session are those that it was opened with, so a new token means a new session. */
  #renewLater(at: number | undefined): void {
    clearTimeout(this.#renewal);
    if (at === undefined) return;
    const pause = Math.min(Math.max(at - Date.now(), SHORTEST_PAUSE), LONGEST_PAUSE);
    this.#renewal = setTimeout(() => void this.#attempt(), pause);
    this.#renewal.unref();
  }

  #failed(thrown: unknown): void {
    const { state, reason } = stateAfter(thrown, this.#remedy());
    if (this.#session !== undefined) {
      // Only the renewal failed: what is there is used until the server refuses it.
      this.lines.add("rack", reason);
      this.#renewLater(Date.now() + RENEW_AGAIN);
      return;
    }
    this.#failures = this.#recentFailures + 1;
    this.#readyAt = 0;
    this.lines.add("rack", reason);
    clearTimeout(this.#timer);
    if (state === "backoff") {
      const pause = pauseAfter(this.#failures);
      this.#nextAttemptAt = Date.now() + pause;
      this.#timer = setTimeout(() => void this.#attempt(), pause);
      this.#timer.unref();
    }
    this.#enter(state, reason);
  }

  #remedy(): string {
    if (this.#parts.signIn !== undefined) {
      return `Sign in: toolrack mcp-servers login ${this.key}, or on its page in the console. For a server that takes a fixed token, give its entry a header "Authorization": "Bearer …" with the token kept as a secret.`;
    }
    return 'Give its entry a header such as "Authorization": "Bearer …" with its token kept as a secret, then restart it.';
  }

  #enter(state: UpstreamState, reason?: string): void {
    const isNew = state !== this.#state || reason !== this.#reason;
    this.#state = state;
    this.#reason = reason;
    if (!isNew) return;
    this.#since = Date.now();
    if (reason !== undefined && state !== "starting") {
      this.#parts.logger.warn(`MCP server "${this.key}": ${state}. ${reason}`);
    }
    this.#parts.onState();
  }

  #remember(verdict: Verdict | undefined): void {
    const isNew = verdict?.at !== this.#verdict?.at || verdict?.era !== this.#verdict?.era;
    this.#verdict = verdict;
    if (isNew) this.#parts.onVerdict(verdict);
  }

  #read(session: UpstreamSession): Promise<Catalogue> {
    const { list: limit } = this.#limits;
    return readCatalogue(session, {
      limit,
      before: this.#catalogue,
      onProblem: (text) => this.lines.add("rack", text),
    });
  }

  async #reread(): Promise<void> {
    const session = this.#session;
    if (session === undefined) return;
    try {
      const before = this.#catalogue;
      const catalogue = await this.#read(session);
      if (session !== this.#session) return;
      const changed = changedLists(before, catalogue);
      if (changed.length > 0) this.#show(catalogue, changed);
      else this.#catalogue = catalogue;
    } catch (thrown) {
      if (thrown instanceof UpstreamError && thrown.kind === "unavailable" && session === this.#session) {
        this.#lost(session, thrown);
        return;
      }
      this.lines.add("rack", `Its lists could not be read again: ${(thrown as Error).message}`);
    }
    if (session === this.#session && !session.tellsOfChanges) this.#rereading.later();
  }

  #rest(): void {
    const session = this.#session;
    if (session === undefined || this.#bulkhead.inside > 0) return;
    this.#partWith(session);
    this.#isResting = true;
    this.#failures = 0;
    this.#parts.onState();
  }

  #unavailable(reason = this.#reason): UpstreamError {
    const facts = {
      state: this.#state,
      ...(reason === undefined ? {} : { reason }),
      ...(this.#nextAttemptAt === undefined ? {} : { nextAttemptAt: this.#nextAttemptAt }),
    };
    const lastWords = this.lines.tail(TAIL, this.#attemptAt);
    return new UpstreamError("unavailable", describeAbsence(this.key, facts, lastWords));
  }
}

/** One that somebody may give up while it waits for its turn. */
type UpstreamRequest = LaneRequest & { readonly signal: AbortSignal };

/** What happened to one request, and says nothing about the others. */
const concernsOneRequest: ReadonlySet<UpstreamError["kind"]> = new Set([
  "refused",
  "broken",
  "timeout",
  "busy",
]);

/** Whether the server may speak another protocol than was thought, and has not simply ended. */
function isMisunderstanding(thrown: unknown): boolean {
  return thrown instanceof UpstreamError && concernsOneRequest.has(thrown.kind);
}
