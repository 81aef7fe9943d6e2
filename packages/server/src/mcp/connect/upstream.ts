import { setTimeout as delay } from "node:timers/promises";
import type { ToolContext } from "@toolrack/core";
import { unlessAborted } from "../../helpers/index.ts";
import type { ListName } from "../wire/index.ts";
import type { Catalogue, UpstreamTool } from "./catalogue/catalogue.ts";
import { fingerprintOf, isLocal, type ServerEntry, type ServerLimits } from "./config/entry.ts";
import {
  type ConnectedServer,
  type ConnectionCaller,
  connectionEntry,
  withSignIn,
} from "./connection-entry.ts";
import {
  absence,
  loss,
  missingScope,
  nameOf,
  type Outlook,
  RackCircle,
  refusedCredentials,
  type ServerReason,
  stateAfter,
  UpstreamError,
  waitWanted,
} from "./failures.ts";
import { Bulkhead, limitsOf, pauseAfter, Timer, type UpstreamLimits } from "./limits.ts";
import { RecentLines } from "./process/recent-lines.ts";
import {
  parameterHeaders,
  ToolRequest,
  type UpstreamRequest,
  type Verdict,
  validVerdict,
} from "./protocol/messages.ts";
import type { UpstreamSession } from "./protocol/session.ts";
import { ServerLists } from "./server-lists.ts";
import type { UpstreamStatus } from "./server-schemas.ts";
import type { SignIn } from "./sign-in/sign-in.ts";

type UpstreamState = UpstreamStatus["state"];

/** The server that a connection belongs to. */
export interface UpstreamOwner extends ConnectedServer {
  /** Which protocol and transport the server last spoke. */
  readonly verdict: Verdict | undefined;
  learn(verdict: Verdict | undefined): void;
  /** Throws when the tool may not be called, because it has changed since it was approved or is no longer offered. */
  admit(tool: UpstreamTool, from: Upstream): void;
  /** Called with a new catalogue and the names of the lists that changed. If it throws, the former catalogue stays. */
  take(catalogue: Catalogue, changed: readonly ListName[], from: Upstream): void;
  /** Called when a watched resource has changed. */
  updated(uri: string): void;
}

interface UpstreamOptions {
  readonly limits: ServerLimits | undefined;
  /** Undefined for a process, or a server whose entry has credentials. */
  readonly signIn: SignIn | undefined;
  /** What the server offered in an earlier run. */
  readonly catalogue: Catalogue | undefined;
  /** Undefined for the connection that all callers share. */
  readonly caller?: ConnectionCaller;
}

/** A request that can be given up while it waits. */
export type AbortableRequest = UpstreamRequest & { readonly signal: AbortSignal };

/** After a server has run this long, in milliseconds, its earlier failures no longer count. */
const STEADY = 60_000;
/** A call waits for a server that is started again within this time, in milliseconds, and fails otherwise. */
const LONGEST_PAUSE_AWAITED = 1_000;
/** How many lines of the server's last output an error shows. */
const TAIL = 8;
/** How many pings in a row may stay unanswered before the server counts as hanging. */
const MOST_SILENCES = 3;
/** How long an answer to a ping may take, in milliseconds. */
const LONGEST_SILENCE = 10_000;
/** The shortest pause before a token is renewed, in milliseconds. */
const SHORTEST_RENEWAL = 1_000;
/** The pause before a failed renewal is tried again, in milliseconds. */
const RENEWAL_AGAIN = 10_000;

/**
 * The state machine of one upstream server. Starts the server in the background, notices when it has ended,
 * tries again with growing pauses, and lets calls fail at once in the longer ones. Renews its tokens, reads its lists
 * again, and ends its process while nobody uses it.
 */
export class Upstream {
  readonly key: string;
  readonly entry: ServerEntry;
  readonly lines: RecentLines;
  state: UpstreamState;
  readonly #lists: ServerLists;
  readonly #owner: UpstreamOwner;
  readonly #options: UpstreamOptions;
  #limits: UpstreamLimits;
  readonly #bulkhead: Bulkhead;

  #reason: ServerReason | undefined;
  #since = Date.now();
  #failureCount = 0;
  #readyAt = 0;
  #isResting = false;
  /** The server has accepted our credentials before, with the same entry. */
  #wasAccepted = false;
  /** The headers of the sign-in with which the server was last opened. */
  #sent: Readonly<Record<string, string>> | undefined;

  /** The session over which new requests are sent. */
  #session: UpstreamSession | undefined;
  /** Sessions that are no longer used for new requests and have not ended yet. */
  readonly #former = new Set<UpstreamSession>();
  readonly #watched = new Set<string>();
  /** The running ping of each session. All calls that need an answer to a ping share it. */
  readonly #pings = new Map<UpstreamSession, Promise<boolean>>();

  /** The running attempt to start the server. There is only one at a time, and it never rejects. */
  #attempt: Promise<void> | undefined;
  #abort = new AbortController();
  /** When the latest attempt to start the server began. */
  #attemptAt = 0;
  #isStopped = false;

  readonly #attemptTimer = new Timer();
  /** Opens a new session before the token ends, because a session cannot change its headers. */
  readonly #renewalTimer = new Timer();
  readonly #restTimer = new Timer();

  constructor(owner: UpstreamOwner, options: UpstreamOptions) {
    const { key, wanted, context } = owner;
    this.#owner = owner;
    this.#options = options;
    this.key = key;
    this.entry = wanted.entry;
    this.lines = new RecentLines(context.mask);
    this.#limits = limitsOf(options.limits);
    this.#bulkhead = new Bulkhead(`The ${nameOf(this)}`, this.#limits);
    this.state = wanted.isEnabled ? "starting" : "disabled";
    this.#lists = new ServerLists({
      session: () => this.#session,
      limits: () => this.#limits,
      lines: this.lines,
      identity: context.identity,
      callersValues: [...(options.caller?.values.values() ?? [])],
      take: (catalogue, changed) => owner.take(catalogue, changed, this),
      isEndedBy: (thrown, session) => this.#isEndedBy(thrown, session),
    });
    if (options.catalogue !== undefined) this.catalogue = options.catalogue;
  }

  get catalogue(): Catalogue {
    return this.#lists.catalogue;
  }

  set catalogue(catalogue: Catalogue) {
    this.#lists.catalogue = catalogue;
  }

  get status(): UpstreamStatus {
    const session = this.#session;
    const verdict = session?.verdict ?? this.#knownVerdict;
    const { serverInfo = this.catalogue.serverInfo, protocolVersion } = session?.profile ?? {};
    const failures = this.#failures;
    const isClosed = this.state === "ready" || (this.state === "starting" && failures === 0);
    return {
      state: this.state,
      reason: this.#reason?.reason,
      reasonCode: this.#reason?.code,
      reasonDetails: this.#reason?.details,
      since: this.#since,
      resting: this.#isResting,
      circuit: isClosed ? "closed" : this.state === "starting" ? "half-open" : "open",
      failures,
      nextAttemptAt: this.#attemptTimer.at,
      transport:
        verdict?.transport ??
        (this.entry.api ? "api" : isLocal(this.entry) ? "stdio" : this.entry.type === "sse" ? "sse" : "http"),
      // An API speaks no MCP; only the rack's own side does.
      era: this.entry.api === undefined ? verdict?.era : undefined,
      protocolVersion: this.entry.api === undefined ? protocolVersion : undefined,
      serverInfo,
      pid: session?.process?.pid ?? undefined,
      inFlight: this.#bulkhead.inside,
      waiting: this.#bulkhead.waiting,
      noise: session?.process?.noise ?? 0,
    };
  }

  get #failures(): number {
    return this.#readyAt > 0 && Date.now() - this.#readyAt > STEADY ? 0 : this.#failureCount;
  }

  /** When the next attempt is, and the last output of the run that ended. */
  get #outlook(): Outlook {
    return { nextAttemptAt: this.#attemptTimer.at, lastWords: this.lines.tail(TAIL, this.#attemptAt) };
  }

  /** Whether requests can be sent without starting the server first. */
  get isOpen(): boolean {
    return this.#session !== undefined;
  }

  /** Begins to start the server. Resolves when it is ready or has failed. */
  async start(): Promise<void> {
    if (this.state !== "disabled") await this.#begin();
  }

  /** Counts as ready without being started, because other connections to the server are used. */
  standBy(reason?: ServerReason): void {
    if (this.state === "disabled") return;
    this.#isResting = true;
    this.#enter("ready", reason);
  }

  /** Ends the server for good. Resolves when nothing of it is left. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#renewalTimer.clear();
    this.#restTimer.clear();
    this.#lists.end();
    await Promise.all([this.#giveUpAttempt(), this.#endSessions("It was stopped.")]);
  }

  /** Ends the server and starts it again, even after failures. Resolves when the server is ready or has failed. */
  async restart(): Promise<void> {
    if (this.state === "disabled" || this.#isStopped) return;
    await this.#giveUpAttempt();
    await this.#endSessions("It is being restarted.");
    this.#failureCount = 0;
    await this.#begin();
  }

  /** Uses other limits from now on. Running calls are not affected; connection limits apply to the next connection. */
  limit(limits: ServerLimits): void {
    this.#limits = limitsOf(limits);
    this.#bulkhead.resize(this.#limits);
    this.#restTimer.clear();
    this.#lists.end();
    if (this.#session === undefined) return;
    this.#beginRest();
    // A change may have been announced just before. Read it now, because the old timer was cleared.
    this.#lists.readSoon();
  }

  /** Calls a tool. Rejects with `UpstreamError`, or with the reason of the context's signal. */
  call(tool: UpstreamTool, context: ToolContext): Promise<unknown> {
    const headers = isLocal(this.entry) ? undefined : parameterHeaders(tool.inputSchema, context.input);
    return this.request(new ToolRequest(tool, context, headers, () => this.#owner.admit(tool, this)));
  }

  request(request: AbortableRequest): Promise<unknown> {
    const session = this.#session;
    const isBehind = request.admit !== undefined && this.#lists.isBehind;
    // Most requests need not wait, and are sent below.
    if (session === undefined || !this.#bulkhead.hasRoom || isBehind) return this.#requestLater(request);
    try {
      request.admit?.();
    } catch (thrown) {
      return Promise.reject(thrown);
    }
    void this.#bulkhead.enter(request);
    return this.#send(session, request);
  }

  /** Subscribes to changes of a resource, also after restarts. Returns a function that ends the subscription. */
  watchResource(uri: string): () => void {
    this.#watched.add(uri);
    void this.#session?.subscriptions.watch([uri]);
    return () => {
      this.#watched.delete(uri);
      void this.#session?.subscriptions.unwatch(uri);
    };
  }

  async #requestLater(request: AbortableRequest): Promise<unknown> {
    const begin = request.waitingForTurn?.();
    const session = this.#session ?? (await this.#available(request.signal));
    await this.#bulkhead.enter(request);
    begin?.();
    try {
      if (request.admit !== undefined) await this.#lists.catchUp(request.signal);
      request.admit?.();
    } catch (thrown) {
      this.#leaveBulkhead();
      throw thrown;
    }
    // The server may have been restarted during the wait.
    return this.#send(this.#session ?? session, request);
  }

  /**
   * Resolves with the session. Waits while the server starts, also after a rest or a failure, and when it is
   * about to be started again. The attempt ends within `limits.connect`. If the next attempt is further away,
   * rejects without waiting.
   */
  async #available(signal: AbortSignal): Promise<UpstreamSession> {
    const { at } = this.#attemptTimer;
    const pause = at === undefined ? Number.POSITIVE_INFINITY : at - Date.now();
    if (pause <= LONGEST_PAUSE_AWAITED) {
      await unlessAborted(delay(pause), signal);
      // The wait is over, but the timer of the next attempt may not have fired yet. Then the attempt begins here.
      if (at === this.#attemptTimer.at) void this.#begin();
    }
    if (this.#isResting) void this.#begin();
    if (this.#attempt !== undefined) await unlessAborted(this.#attempt, signal);
    if (this.#session === undefined) throw this.#absence();
    return this.#session;
  }

  /** Sends a request that has entered the bulkhead. Leaves the bulkhead when the request has ended. */
  #send(session: UpstreamSession, request: AbortableRequest): Promise<unknown> {
    this.#restTimer.clear();
    return session.request(request).then(
      (result) => {
        this.#leaveBulkhead();
        return result;
      },
      (thrown: unknown) => {
        if (thrown instanceof UpstreamError)
          return this.#recover(thrown, session, request).finally(() =>
            thrown.kind === "timeout" ? this.#leaveBulkheadUnanswered(session) : this.#leaveBulkhead(),
          );
        this.#leaveBulkheadUnanswered(session);
        throw thrown;
      },
    );
  }

  #leaveBulkhead(): void {
    this.#bulkhead.leave();
    this.#beginRest();
  }

  /** For a call that was given up without an answer: the next call waits until the server answers a ping. */
  #leaveBulkheadUnanswered(session: UpstreamSession): void {
    if (this.#bulkhead.waiting === 0 || session !== this.#session) this.#leaveBulkhead();
    else void this.#answersPing(session).then(() => this.#leaveBulkhead());
    void this.#replaceSilent(session);
  }

  /** Sends a ping. Resolves to false when no answer comes; an error is an answer too. Never rejects. */
  #answersPing(session: UpstreamSession): Promise<boolean> {
    const isAnswer = (thrown: unknown) => !(thrown instanceof UpstreamError && thrown.kind === "timeout");
    const send = () => session.request({ method: "ping", params: {}, timeout: LONGEST_SILENCE });
    const ping = this.#pings.get(session) ?? send().then(() => true, isAnswer);
    this.#pings.set(session, ping);
    return ping.finally(() => this.#pings.delete(session));
  }

  /**
   * Pings the server, and gives up its session if the server hangs. Calls that wait for an answer over that
   * session keep waiting.
   */
  async #replaceSilent(session: UpstreamSession): Promise<void> {
    for (let silences = 0; silences < MOST_SILENCES; silences++) {
      if (session !== this.#session || (await this.#answersPing(session))) return;
    }
    this.#lose(
      session,
      new UpstreamError("unavailable", "It left a call and three pings in a row unanswered."),
    );
  }

  /**
   * Handles a failed request. If the server no longer knows the session or refuses its token, opens a new
   * session and sends the request once more, because the server did nothing when it refused. Otherwise rejects
   * with the error for the caller.
   */
  async #recover(
    error: UpstreamError,
    session: UpstreamSession,
    request: AbortableRequest,
    isSecond = false,
  ): Promise<unknown> {
    const { signIn } = this.#options;
    const { kind, facts } = error;
    if (facts.scope !== undefined) throw missingScope(error, signIn?.requireScope(facts.scope));
    if (kind === "lost") throw loss(this, error.message, this.#outlook);
    if (kind === "broken") this.#checkSoon();
    if (error.concernsOneRequest) throw error;
    if (isSecond && kind === "session") throw new UpstreamError("refused", error.message, facts);
    const isCurrent = session === this.#session;
    // If the session was replaced meanwhile, another request has already started the renewal.
    const canRenew =
      kind === "unauthorized" && !isSecond && (!isCurrent || signIn?.markRefused(this.#sent) === true);
    const canRetry = kind === "session" || canRenew;
    if (kind === "unauthorized" && !canRetry && (isSecond || signIn === undefined)) {
      this.#checkSoon();
      throw refusedCredentials(error, signIn !== undefined);
    }
    if (isCurrent) {
      // Other requests may still wait for answers over this session.
      this.#retire(session);
      if (!canRetry) this.#failed(error);
    }
    if (!canRetry) throw this.#absence(error.message);
    if (this.#session === undefined) await unlessAborted(this.#begin(), request.signal);
    const again = this.#session;
    if (again === undefined) throw this.#absence();
    request.admit?.();
    return again.request(request).catch((thrown: unknown) => {
      if (thrown instanceof UpstreamError) return this.#recover(thrown, again, request, true);
      throw thrown;
    });
  }

  /**
   * Reads the lists of a server at an address soon, to see whether the server is still there and accepts our
   * credentials.
   */
  #checkSoon(): void {
    if (!isLocal(this.entry)) this.#lists.readSoon();
  }

  /** The error for calls while there is no session. `reason` is used when the state has none. */
  #absence(reason?: string): UpstreamError {
    return absence(this, this.state, this.#reason?.reason ?? reason, this.#outlook);
  }

  /**
   * Joins the running attempt to start the server, or begins one. Resolves when the attempt has ended, with
   * success or not.
   */
  #begin(): Promise<void> {
    this.#attemptTimer.clear();
    if (this.#attempt === undefined && !this.#isStopped) {
      this.#abort = new AbortController();
      this.#attemptAt = Date.now();
      this.#attempt = this.#connect(this.#abort.signal).finally(() => {
        this.#attempt = undefined;
      });
    }
    return this.#attempt ?? Promise.resolve();
  }

  /** Aborts the running attempt and cancels the next one. Resolves when no attempt is running. */
  async #giveUpAttempt(): Promise<void> {
    this.#attemptTimer.clear();
    this.#abort.abort();
    await this.#attempt;
  }

  async #connect(signal: AbortSignal, isSecond = false): Promise<void> {
    const { signIn } = this.#options;
    this.#isResting = false;
    // If only the token is renewed, calls continue over the current session.
    if (this.#session === undefined) this.#enter("starting", this.#failures === 0 ? undefined : this.#reason);
    const prior = this.#knownVerdict;
    let session: UpstreamSession | undefined;
    try {
      session = await this.#open(prior, signal);
      await this.#prepare(session, signal);
    } catch (thrown) {
      await session?.close();
      if (signal.aborted) return;
      if (thrown instanceof UpstreamError) {
        if (thrown.facts.scope !== undefined) signIn?.requireScope(thrown.facts.scope);
        else if (!isSecond && thrown.asksForCredentials && signIn?.markRefused(this.#sent))
          return this.#connect(signal, true);
        // The server may speak another protocol now. The next attempt finds out.
        if (prior !== undefined && thrown.concernsOneRequest) this.#remember(undefined);
      }
      this.#failed(thrown);
    }
  }

  /** Starts or reaches the server with the current values of variables and credentials. */
  async #open(prior: Verdict | undefined, signal: AbortSignal): Promise<UpstreamSession> {
    const { key, context } = this.#owner;
    const { signIn, caller } = this.#options;
    const entry = await connectionEntry(this.#owner, caller);
    // The description of an API says where a person signs in, so it is read without a token. Calls ask for tokens themselves.
    this.#sent = this.entry.api === undefined ? await signIn?.headers() : undefined;
    // Imported late: a workspace without upstream servers never loads the client.
    const { connectUpstream } = await import("./protocol/handshake.ts");
    return connectUpstream({
      server: key,
      entry: withSignIn(entry, key, signIn, this.#sent),
      prior,
      protocol: this.entry.toolrack?.protocol,
      fingerprint: fingerprintOf(this.entry),
      lines: this.lines,
      context,
      limits: this.#limits,
      signal,
    });
  }

  /** Reads what the server offers, then makes its session the current one. */
  async #prepare(session: UpstreamSession, signal: AbortSignal): Promise<void> {
    session.follow({
      onListChanged: (list) => this.#lists.announce(list, session),
      onResourceUpdated: (uri) => {
        if (this.#options.caller === undefined) this.#owner.updated(uri);
      },
      onLost: (reason) => this.#lose(session, reason),
    });
    // `stop` must not wait for slow lists.
    const reading = this.#lists.readFirst(session);
    await unlessAborted(reading, signal);
    const apply = await reading;
    await unlessAborted(session.subscriptions.watch(this.#watched), signal);
    const requireOpen = () => {
      if (signal.aborted || session.isClosed)
        throw new UpstreamError("unavailable", "It ended before it was ready.");
    };
    requireOpen();
    apply();
    const { signIn } = this.#options;
    const isApi = this.entry.api !== undefined;
    if (isApi && signIn !== undefined) {
      // The calls of an API ask for tokens themselves. Here it is only found out whether there are any.
      await signIn.isSignedIn().catch(() => false);
      requireOpen();
    }
    // Open requests finish over the former session.
    if (this.#session !== undefined) this.#retire(this.#session);
    this.#session = session;
    this.#wasAccepted = true;
    this.#readyAt = Date.now();
    const renewAt = isApi ? undefined : signIn?.renewAt;
    this.#renewalTimer.clear();
    if (renewAt !== undefined) this.#renewAfter(Math.max(renewAt - Date.now(), SHORTEST_RENEWAL));
    this.#remember(session.verdict);
    this.#enter("ready");
    this.#lists.sessionIsUsed();
    this.#beginRest();
  }

  #renewAfter(pause: number): void {
    this.#renewalTimer.set(pause, () => void this.#begin());
  }

  #lose(session: UpstreamSession, reason: UpstreamError): void {
    if (session !== this.#session) return;
    this.#retire(session);
    if (!this.#isStopped) this.#failed(reason);
  }

  /** Stops using a session. It ends when all requests over it are answered. */
  #retire(session: UpstreamSession): void {
    if (session === this.#session) this.#session = undefined;
    this.#former.add(session);
    void session.retire().finally(() => this.#former.delete(session));
  }

  /**
   * Ends the current and all former sessions. `why`: the reason that their open requests get. Resolves when all
   * have ended.
   */
  async #endSessions(why: string): Promise<void> {
    if (this.#session !== undefined) this.#retire(this.#session);
    const reason = new UpstreamError("unavailable", why);
    await Promise.all([...this.#former].map((session) => session.close(reason)));
  }

  #failed(thrown: unknown): void {
    const { signIn } = this.#options;
    // A server that leads back to this rack offers the rack's own tools, which would be listed twice.
    if (thrown instanceof RackCircle) this.#lists.empty();
    const { mask } = this.#owner.context;
    const remedy = this.#options.caller?.remedy;
    const explanation = this.lines.explanation(this.#attemptAt);
    const canSignIn = signIn !== undefined;
    const { state, ...why } = stateAfter(thrown, { key: this.key, canSignIn, mask, remedy, explanation });
    this.lines.add("rack", why.reason);
    if (this.#session !== undefined) {
      if (state !== "needs-auth" || signIn?.view.signedIn !== false) {
        // Only the renewal failed. The current session is used until the server refuses it.
        this.#renewAfter(RENEWAL_AGAIN);
        return;
      }
      this.#retire(this.#session);
    }
    this.#failureCount = this.#failures + 1;
    this.#readyAt = 0;
    // Credentials of the entry that worked before may work again. An ended sign-in does not.
    const isTriedAgain =
      state === "backoff" || (state === "needs-auth" && this.#wasAccepted && signIn === undefined);
    if (isTriedAgain) {
      const pause = Math.max(pauseAfter(this.#failureCount), waitWanted(thrown));
      this.#attemptTimer.set(pause, () => void this.#begin());
    }
    this.#enter(state, why);
  }

  #enter(state: UpstreamState, why?: ServerReason): void {
    const reason = why?.reason;
    if (state === this.state && reason === this.#reason?.reason) return;
    this.state = state;
    this.#reason = why;
    this.#since = Date.now();
    if (reason !== undefined && state !== "starting" && state !== "ready")
      this.#owner.context.logger.warn(`${nameOf(this)}: ${state}. ${reason}`);
    this.#owner.context.onChange();
  }

  /** Which protocol and transport the server last spoke, over any of its connections. */
  get #knownVerdict(): Verdict | undefined {
    return validVerdict(this.#owner.verdict, this.entry);
  }

  #remember(verdict: Verdict | undefined): void {
    const known = this.#owner.verdict;
    if (verdict?.at !== known?.at || verdict?.era !== known?.era) this.#owner.learn(verdict);
  }

  /**
   * Returns whether a failure to read the lists ends the session. If so, stops using the session, and opens a
   * new one or enters the state after the failure.
   */
  #isEndedBy(thrown: unknown, session: UpstreamSession): boolean {
    if (thrown instanceof RackCircle) {
      this.#retire(session);
      this.#failed(thrown);
      return true;
    }
    if (!(thrown instanceof UpstreamError)) return false;
    const { kind } = thrown;
    if (kind === "session") {
      // The server works but has forgotten the session. Calls wait for the new session.
      this.#retire(session);
      void this.#begin();
      return true;
    }
    // An ended token is renewed when the next call needs it.
    const isRejected = kind === "unauthorized" && this.#options.signIn === undefined;
    if (!isRejected && kind !== "unavailable" && kind !== "lost") return false;
    this.#lose(session, thrown);
    return true;
  }

  /** If no call is running, starts the timer that ends an unused process. */
  #beginRest(): void {
    const { rest } = this.#limits;
    if (rest === undefined || !isLocal(this.entry) || this.#bulkhead.inside > 0) return;
    this.#restTimer.set(rest, () => {
      const session = this.#session;
      if (session === undefined || this.#bulkhead.inside > 0) return;
      this.#retire(session);
      this.#isResting = true;
      this.#failureCount = 0;
      this.#owner.context.onChange();
    });
  }
}
