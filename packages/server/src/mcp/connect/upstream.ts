import type { Logger, ToolContext } from "@toolrack/core";
import { problemOfCircle, type RackIdentity } from "../../calls/index.ts";
import { unlessAborted } from "../../helpers/index.ts";
import { type Catalogue, emptyCatalogue, LiveCatalogue, type UpstreamTool } from "./catalogue/catalogue.ts";
import { isLocal, type ServerEntry, type ServerLimits } from "./config/entry.ts";
import type { Surroundings } from "./config/resolve-entry.ts";
import { Bulkhead, limitsOf, openSession, Sessions, type UpstreamLimits } from "./limits.ts";
import { RecentLines } from "./process/stdio-transport.ts";
import { UpstreamError } from "./protocol/failures.ts";
import { parameterHeaders, ToolRequest } from "./protocol/fetch.ts";
import { stillHolds, type Verdict } from "./protocol/questions.ts";
import type { ListName, UpstreamSession } from "./protocol/session.ts";
import type { SignIn } from "./sign-in/sign-in.ts";
import {
  asksForCredentials,
  Condition,
  describeAbsence,
  describeLoss,
  isMisunderstanding,
  RackCircle,
  refuseCircle,
  remedyFor,
  stateAfter,
  statusOf,
  type UpstreamState,
  type UpstreamStatus,
  waitWanted,
} from "./upstream-state.ts";
import {
  Attempts,
  pauseAfter,
  Recovery,
  RenewalTimer,
  RereadTimer,
  RestTimer,
  SignOfLife,
  type UpstreamRequest,
} from "./upstream-timers.ts";
import type { PackageStore } from "./wanted-servers.ts";

/** How often its lists are read again for a call that came after it told of a change. */
const MOST_READS = 3;
const UNREAD =
  "The server told that its tools have changed, and they could not be read again, so that nothing is called on it. Its log says why.";

/** Signs of life that a server may owe in a row, ten seconds each, before it counts as hanging. */
const MOST_SILENCES = 3;

/** So many of its last lines are shown when it is gone. */
const TAIL = 8;

/**
 * One upstream server and the care for it: starts it without making anybody wait, notices when it is gone, tries again
 * with growing pauses, and lets calls fail at once in between.
 */
export class Upstream {
  readonly key: string;
  readonly entry: ServerEntry;
  readonly lines: RecentLines;
  /** For what is said of it. */
  readonly mask: (text: string) => string;
  readonly #parts: UpstreamParts;
  readonly #bulkhead: Bulkhead;
  readonly #condition: Condition;
  readonly #sessions = new Sessions();
  readonly #attempts = new Attempts((signal) => this.#connect(signal));
  /** The headers of a session are those that it was opened with, so a new token means a new session. */
  readonly #renewal = new RenewalTimer(() => void this.#attempts.begin());
  readonly #catalogue: LiveCatalogue;
  readonly #recovery: Recovery;
  readonly #life = new SignOfLife();
  readonly #watched = new Set<string>();
  #limits: UpstreamLimits;
  #verdict: Verdict | undefined;
  #isResting = false;
  /** The server has let us in before, with the same entry. */
  #wasLetIn = false;
  #resting: RestTimer;
  /** When the lists are read again, after a server told of a change or did not for a long time. */
  #rereading: RereadTimer;
  /** How often the server told that its tools have changed, and up to which of these they were read again. */
  #announced = 0;
  #readUpTo = 0;
  /** Tools that were found to be what somebody agreed to, by the catalogue that is there. */
  #admitted: { readonly by: Catalogue; readonly tools: WeakSet<UpstreamTool> } | undefined;

  constructor(parts: UpstreamParts) {
    this.#parts = parts;
    this.key = parts.key;
    this.entry = parts.entry;
    this.mask = parts.mask;
    this.lines = new RecentLines(parts.mask);
    this.#limits = limitsOf(parts.entry.toolrack?.limits);
    this.#resting = this.#restTimer();
    this.#rereading = this.#rereadTimer();
    const { concurrency, queue } = this.#limits;
    this.#bulkhead = new Bulkhead(`The MCP server "${parts.key}"`, concurrency, queue);
    this.#verdict = stillHolds(parts.verdict, parts.entry);
    this.#condition = new Condition(parts.isEnabled ? "starting" : "disabled");
    this.#catalogue = new LiveCatalogue({
      known: parts.catalogue,
      limit: () => this.#limits.list,
      onProblem: (text) => this.lines.add("rack", text),
      check: ({ racks = [] }) => refuseCircle(problemOfCircle(racks, parts.identity)),
      onChange: (catalogue, changed) => parts.onCatalogue(catalogue, changed),
    });
    this.#recovery = new Recovery({
      sessions: this.#sessions,
      attempts: this.#attempts,
      signIn: parts.signIn,
      onBroken: () => {
        // Whether the server is still there is seen when its lists are read.
        if (!isLocal(this.entry)) this.#rereading.soon();
      },
      onFailed: (error) => this.#failed(error),
      unavailable: (reason) => this.#unavailable(this.#condition.reason ?? reason),
      lost: (reason) => this.#wasLost(reason),
    });
  }

  get state(): UpstreamState {
    return this.#condition.state;
  }

  get catalogue(): Catalogue {
    return this.#catalogue.current;
  }

  get status(): UpstreamStatus {
    return statusOf({
      entry: this.entry,
      condition: this.#condition,
      attempts: this.#attempts,
      session: this.#sessions.current,
      verdict: this.#verdict,
      catalogue: this.catalogue,
      bulkhead: this.#bulkhead,
      isResting: this.#isResting,
    });
  }

  /** The last line that its process wrote, while it cannot be used. */
  get lastWord(): string | undefined {
    const isTold = this.state !== "ready" && this.#condition.reason !== undefined;
    return isTold ? this.#lastWords().at(-1) : undefined;
  }

  /** Returns at once. */
  start(): void {
    if (this.state !== "disabled") void this.#attempts.begin();
  }

  /** Ends it, and resolves when nothing of it is left. */
  async stop(): Promise<void> {
    this.#renewal.end();
    this.#resting.end();
    this.#rereading.end();
    await Promise.all([this.#attempts.end(), this.#sessions.end("It was stopped.")]);
  }

  /** Tries anew, whatever happened before. Resolves when it is ready or has failed. */
  async restart(): Promise<void> {
    if (this.state === "disabled" || this.#attempts.isOver) return;
    await this.#attempts.giveUp();
    await this.#sessions.end("It is being restarted.");
    this.#condition.forgetFailures();
    await this.#attempts.begin();
  }

  /** Goes by other limits from now on. What is under way goes on; those of the connection count for the next one. */
  limit(limits: ServerLimits): void {
    this.#limits = limitsOf(limits);
    this.#bulkhead.resize(this.#limits.concurrency, this.#limits.queue);
    this.#resting.end();
    this.#resting = this.#restTimer();
    this.#rereading.end();
    this.#rereading = this.#rereadTimer();
    if (this.#sessions.current === undefined) return;
    if (this.#bulkhead.inside === 0) this.#resting.begin();
    // A change that was told of just now is read later than it would have been, and not missed.
    this.#rereading.soon();
  }

  /** Calls a tool. Rejects with `UpstreamError`, or with the reason of the context's signal. */
  call(tool: UpstreamTool, context: ToolContext): Promise<unknown> {
    const headers = isLocal(this.entry) ? undefined : parameterHeaders(tool.inputSchema, context.input);
    return this.request(new ToolRequest(tool, context, headers, () => this.#admit(tool)));
  }

  /** Sends anything else. */
  request(request: UpstreamRequest): Promise<unknown> {
    const session = this.#sessions.current;
    const isBehind = request.admit !== undefined && this.#readUpTo < this.#announced;
    // Most requests wait for nothing but their answer.
    if (session === undefined || !this.#bulkhead.hasRoom || isBehind) return this.#requestLater(request);
    try {
      request.admit?.();
    } catch (thrown) {
      return Promise.reject(thrown);
    }
    void this.#bulkhead.enter(request);
    return this.#send(session, request);
  }

  /** Begins to be told of changes of a resource, also after a new start. Answers how to end it. */
  watchResource(uri: string): () => void {
    this.#watched.add(uri);
    void this.#sessions.current?.watchResources([uri]);
    return () => {
      this.#watched.delete(uri);
      void this.#sessions.current?.unwatchResource(uri);
    };
  }

  async #requestLater(request: UpstreamRequest): Promise<unknown> {
    const begin = request.waitingForTurn?.();
    const session = this.#sessions.current ?? (await this.#available(request.signal));
    await this.#bulkhead.enter(request);
    begin?.();
    try {
      if (request.admit !== undefined) await this.#catchUp(request.signal);
      request.admit?.();
    } catch (thrown) {
      this.#leave();
      throw thrown;
    }
    // While it waited, the server may have been started anew.
    return this.#send(this.#sessions.current ?? session, request);
  }

  /** Reads again what the server has told of by now: nothing is called on a definition that nobody here has seen. */
  async #catchUp(signal: AbortSignal): Promise<void> {
    const wanted = this.#announced;
    for (let reads = 0; this.#readUpTo < wanted && this.#sessions.current !== undefined; reads++) {
      // The first one may have been under way when the server told of the change.
      if (reads === MOST_READS) throw new UpstreamError("unavailable", UNREAD);
      await unlessAborted(this.#rereading.now(), signal);
    }
  }

  #admit(tool: UpstreamTool): void {
    if (this.#admitted?.by !== this.catalogue) this.#admitted = { by: this.catalogue, tools: new WeakSet() };
    if (this.#admitted.tools.has(tool)) return;
    this.#parts.admit(tool);
    this.#admitted.tools.add(tool);
  }

  /** Waits for a server that starts for the first time or wakes up; fails at once for one that has failed. */
  async #available(signal: AbortSignal): Promise<UpstreamSession> {
    if (this.#isResting) void this.#attempts.begin();
    const { underWay, isReopening } = this.#attempts;
    const isAwaited = isReopening || this.#condition.failures === 0;
    if (isAwaited && underWay !== undefined) await unlessAborted(underWay, signal);
    if (this.#sessions.current === undefined) throw this.#unavailable(this.#condition.reason);
    return this.#sessions.current;
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
          return this.#recovery
            .recover(thrown, session, request)
            .finally(() => (thrown.kind === "timeout" ? this.#leaveUnanswered(session) : this.#leave()));
        this.#leaveUnanswered(session);
        throw thrown;
      },
    );
  }

  #leave(): void {
    this.#bulkhead.leave();
    if (this.#bulkhead.inside === 0) this.#resting.begin();
  }

  /** Whoever is next waits until the server shows that it is there: this one was given up, and never answered. */
  #leaveUnanswered(session: UpstreamSession): void {
    if (this.#bulkhead.waiting === 0 || session !== this.#sessions.current) this.#leave();
    else void this.#life.of(session).then(() => this.#leave());
    void this.#replaceSilent(session);
  }

  /** A server that hangs is parted with, and started anew. What it may still answer is waited for by those who asked. */
  async #replaceSilent(session: UpstreamSession): Promise<void> {
    for (let silences = 0; silences < MOST_SILENCES; silences++) {
      if (session !== this.#sessions.current || (await this.#life.of(session))) return;
    }
    this.#lost(
      session,
      new UpstreamError("unavailable", "It left a call and three pings in a row unanswered."),
    );
  }

  async #connect(signal: AbortSignal, isSecond = false): Promise<void> {
    this.#isResting = false;
    const { failures, reason } = this.#condition;
    // Where only the token is renewed, calls go on over the session that is there.
    if (this.#sessions.current === undefined) this.#enter("starting", failures === 0 ? undefined : reason);
    const prior = stillHolds(this.#verdict, this.entry);
    let session: UpstreamSession | undefined;
    try {
      session = await openSession(this.#parts, this.#limits, { prior, lines: this.lines, signal });
      await this.#prepare(session, signal);
    } catch (thrown) {
      await session?.close();
      if (signal.aborted) return;
      const { signIn } = this.#parts;
      if (thrown instanceof UpstreamError && thrown.scope !== undefined) signIn?.want(thrown.scope);
      else if (!isSecond && asksForCredentials(thrown) && signIn?.distrust())
        return this.#connect(signal, true);
      // What was remembered may be why; then the next attempt finds out anew.
      if (prior !== undefined && isMisunderstanding(thrown)) this.#remember(undefined);
      this.#failed(thrown);
    }
  }

  /** Finds out what the server offers, and begins to use it. */
  async #prepare(session: UpstreamSession, signal: AbortSignal): Promise<void> {
    let isUsed = false;
    let isBehind = false;
    session.follow({
      onListChanged: (list) => {
        if (isUsed) this.#noteChange(list);
        else isBehind = true;
      },
      onResourceUpdated: (uri) => this.#parts.onResourceUpdated(uri),
      onLost: (reason) => this.#lost(session, reason),
    });
    // Who stops it does not wait for a server that takes its time over its lists.
    const reading = this.#catalogue.read(session);
    await unlessAborted(reading, signal);
    const catalogue = await reading;
    await unlessAborted(session.watchResources(this.#watched), signal);
    if (signal.aborted || session.isClosed) {
      throw new UpstreamError("unavailable", "It ended before it was ready.");
    }
    this.#catalogue.take(catalogue);
    this.#sessions.use(session);
    isUsed = true;
    this.#wasLetIn = true;
    this.#renewal.at(this.#parts.signIn?.renewAt);
    this.#condition.countSuccess();
    this.#remember(session.verdict);
    this.#enter("ready");
    this.#readUpTo = this.#announced;
    // What it told of while its lists were read may not be in them.
    if (isBehind) this.#noteChange("tools");
    else this.#rereading.later();
    if (this.#bulkhead.inside === 0) this.#resting.begin();
  }

  #noteChange(list: ListName): void {
    if (list === "tools") this.#announced++;
    this.#rereading.soon();
  }

  #lost(session: UpstreamSession, reason: UpstreamError): void {
    if (session !== this.#sessions.current) return;
    this.#sessions.partWith(session);
    if (!this.#attempts.isOver) this.#failed(reason);
  }

  #failed(thrown: unknown): void {
    const { signIn } = this.#parts;
    // What it offered are tools of this rack, which would hang here twice.
    if (thrown instanceof RackCircle) this.#catalogue.take(emptyCatalogue);
    const { state, reason } = stateAfter(thrown, remedyFor(this.key, signIn !== undefined), this.mask);
    this.lines.add("rack", reason);
    const { current } = this.#sessions;
    const isSignedOut = state === "needs-auth" && signIn?.view.signedIn === false;
    if (current !== undefined && !isSignedOut) {
      // Only the renewal failed: what is there is used until the server refuses it.
      this.#renewal.again();
      return;
    }
    if (current !== undefined) this.#sessions.partWith(current);
    const failures = this.#condition.countFailure();
    // Credentials of the entry that were good before may be good again, while a token that was signed in for is not.
    const isTriedAgain =
      state === "backoff" || (state === "needs-auth" && this.#wasLetIn && signIn === undefined);
    if (isTriedAgain) this.#attempts.beginAfter(Math.max(pauseAfter(failures), waitWanted(thrown)));
    this.#enter(state, reason);
  }

  #enter(state: UpstreamState, reason?: string): void {
    if (!this.#condition.enter(state, reason)) return;
    if (reason !== undefined && state !== "starting") {
      const { lastWord } = this;
      const words = lastWord === undefined ? "" : ` Its last words: ${lastWord}`;
      this.#parts.logger.warn(`MCP server "${this.key}": ${state}. ${reason}${words}`);
    }
    this.#parts.onState();
  }

  #remember(verdict: Verdict | undefined): void {
    const isNew = verdict?.at !== this.#verdict?.at || verdict?.era !== this.#verdict?.era;
    this.#verdict = verdict;
    if (isNew) this.#parts.onVerdict(verdict);
  }

  #rereadTimer(): RereadTimer {
    const isTold = () => this.#sessions.current?.tellsOfChanges !== false;
    return new RereadTimer(this.#limits.refresh, () => this.#reread(), isTold);
  }

  async #reread(): Promise<void> {
    const session = this.#sessions.current;
    if (session === undefined) return;
    const isUsed = () => session === this.#sessions.current;
    const announced = this.#announced;
    try {
      await this.#catalogue.update(session, isUsed);
      if (isUsed()) this.#readUpTo = announced;
    } catch (thrown) {
      if (isUsed() && thrown instanceof RackCircle) {
        this.#sessions.partWith(session);
        return this.#failed(thrown);
      }
      const error = isUsed() && thrown instanceof UpstreamError ? thrown : undefined;
      if (error?.kind === "session") return this.#reopen(session);
      if (error !== undefined && this.#isOfServer(error)) return this.#lost(session, error);
      this.lines.add("rack", `Its lists could not be read again: ${(thrown as Error).message}`);
    }
    if (isUsed()) this.#rereading.later();
  }

  /** The server is there and has forgotten the session. Calls wait for the next one. */
  #reopen(session: UpstreamSession): void {
    this.#sessions.partWith(session);
    this.#attempts.isReopening = true;
    void this.#attempts.begin();
  }

  /** Whether it is gone or lets us in no longer. A token that has ended is renewed when the next call needs it. */
  #isOfServer({ kind }: UpstreamError): boolean {
    if (kind === "unauthorized") return this.#parts.signIn === undefined;
    return kind === "unavailable" || kind === "lost";
  }

  #restTimer(): RestTimer {
    return new RestTimer(isLocal(this.entry) ? this.#limits.rest : undefined, () => this.#rest());
  }

  #rest(): void {
    const session = this.#sessions.current;
    if (session === undefined || this.#bulkhead.inside > 0) return;
    this.#sessions.partWith(session);
    this.#isResting = true;
    this.#condition.forgetFailures();
    this.#parts.onState();
  }

  #unavailable(reason: string | undefined): UpstreamError {
    const { nextAt } = this.#attempts;
    const facts = {
      state: this.state,
      ...(reason === undefined ? {} : { reason }),
      ...(nextAt === undefined ? {} : { nextAttemptAt: nextAt }),
    };
    return new UpstreamError("unavailable", describeAbsence(this.key, facts, this.#lastWords()));
  }

  #wasLost(reason: string): UpstreamError {
    const { nextAt } = this.#attempts;
    const facts = { reason, ...(nextAt === undefined ? {} : { nextAttemptAt: nextAt }) };
    return new UpstreamError("lost", describeLoss(this.key, facts, this.#lastWords()));
  }

  /** Those of the run that has ended, also while the next one begins to speak. */
  #lastWords(): readonly string[] {
    const { lastAt, formerAt, underWay } = this.#attempts;
    const former = underWay === undefined ? [] : this.lines.tail(TAIL, formerAt, lastAt);
    return former.length > 0 ? former : this.lines.tail(TAIL, lastAt);
  }
}

/** What an upstream server is made of, and whom it tells. */
export interface UpstreamParts {
  readonly key: string;
  readonly entry: ServerEntry;
  /** Why it cannot be started with this entry at all. */
  readonly problem?: string | undefined;
  /** Where the entry stands, for messages: `mcp.json` or `mcp_servers`. */
  readonly place: string;
  readonly isEnabled: boolean;
  readonly surroundings: Surroundings;
  /** The rack that it is a server of. */
  readonly identity: RackIdentity;
  readonly clientInfo: { readonly name: string; readonly version: string };
  /** Where packages are installed. */
  readonly packages: PackageStore;
  readonly mask: (text: string) => string;
  /** Is told, at every start, which values of the entry nobody may see. */
  hold(values: Iterable<string>): void;
  readonly logger: Logger;
  /** Undefined where nobody can sign in: a process, or a server that is sent credentials of its entry. */
  readonly signIn: Pick<SignIn, "headers" | "distrust" | "renewAt" | "want" | "view"> | undefined;
  /** From an earlier time. */
  readonly verdict: Verdict | undefined;
  readonly catalogue: Catalogue | undefined;
  /** Throws when calls of the tool, as it was when it was hung up, are not to be sent to the server as it is now. */
  admit(tool: UpstreamTool): void;
  onState(): void;
  onVerdict(verdict: Verdict | undefined): void;
  onCatalogue(catalogue: Catalogue, changed: readonly ListName[]): void;
  onResourceUpdated(uri: string): void;
}
