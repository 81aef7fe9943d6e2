import type { Logger, ToolContext } from "@toolrack/core";
import {
  problemOfCircle,
  problemOfOwnEntry,
  problemOfStart,
  type RackIdentity,
  racksFor,
} from "../../calls/index.ts";
import { readServerAddress } from "../../config/index.ts";
import { reasonOf, unlessAborted } from "../../helpers/index.ts";
import {
  type Catalogue,
  changedLists,
  emptyCatalogue,
  readCatalogue,
  type UpstreamTool,
} from "./catalogue/catalogue.ts";
import { fingerprintOf, isLocal, type ServerEntry, type ServerLimits } from "./config/entry.ts";
import { credentialsIn } from "./config/hidden.ts";
import { resolveEntry, type Surroundings } from "./config/resolve-entry.ts";
import {
  absence,
  ConfigurationError,
  loss,
  missingScope,
  type Outlook,
  RackCircle,
  refuseCircle,
  refusedCredentials,
  stateAfter,
  UpstreamError,
  waitWanted,
} from "./failures.ts";
import { Bulkhead, limitsOf, pauseAfter, RereadTimer, Timer, type UpstreamLimits } from "./limits.ts";
import type { PackageStore } from "./process/program.ts";
import { RecentLines } from "./process/recent-lines.ts";
import {
  parameterHeaders,
  stillHolds,
  ToolRequest,
  type UpstreamRequest,
  type Verdict,
} from "./protocol/messages.ts";
import type { ListName, UpstreamSession } from "./protocol/session.ts";
import type { SignIn } from "./sign-in/sign-in.ts";

export type UpstreamState = "starting" | "ready" | "needs-auth" | "backoff" | "failed" | "disabled";

/** What may be seen of a server at a moment. */
export interface UpstreamStatus {
  readonly state: UpstreamState;
  /** Why it is not ready. */
  readonly reason?: string | undefined;
  /** Since when it is in this state. Milliseconds since the epoch, as are the others. */
  readonly since: number;
  /** Its process was ended because nobody called it; the next call starts it. */
  readonly resting: boolean;
  /** `open`: calls fail at once. `half-open`: it is being tried again. */
  readonly circuit: "closed" | "open" | "half-open";
  /** How often it failed in a row. */
  readonly failures: number;
  readonly nextAttemptAt?: number | undefined;
  readonly transport: Verdict["transport"];
  readonly era?: Verdict["era"] | undefined;
  readonly protocolVersion?: string | undefined;
  readonly serverInfo?: { readonly name: string; readonly version: string } | undefined;
  readonly pid?: number | undefined;
  readonly inFlight: number;
  readonly waiting: number;
  /** Lines on its standard output that were no messages. */
  readonly noise: number;
}

/** What all upstream servers of a rack share. */
export interface UpstreamSurroundings {
  /** The rack that they are servers of. */
  readonly identity: RackIdentity;
  readonly clientInfo: { readonly name: string; readonly version: string };
  /** Where packages are installed. */
  readonly packages: PackageStore;
  /** For everything that a server says, and that is said of it. */
  readonly mask: (text: string) => string;
  readonly logger: Logger;
}

/** What an upstream server is made of, and whom it tells. */
export interface UpstreamOptions extends UpstreamSurroundings {
  readonly key: string;
  readonly entry: ServerEntry;
  /** Why it cannot be started with this entry at all. */
  readonly problem?: string | undefined;
  /** Where the entry stands, for messages: `mcp.json` or `mcp_servers`. */
  readonly place: string;
  readonly isEnabled: boolean;
  readonly surroundings: Surroundings;
  /** Undefined where nobody can sign in: a process, or a server that is sent credentials of its entry. */
  readonly signIn: Pick<SignIn, "headers" | "distrust" | "renewAt" | "want" | "view"> | undefined;
  /** From an earlier time. */
  readonly verdict: Verdict | undefined;
  readonly catalogue: Catalogue | undefined;
  /** Is told, at every start, which values of the entry nobody may see. */
  hold(values: Iterable<string>): void;
  /** Throws when calls of the tool, as it was when the rack took it in, are not to be sent to the server as it is now. */
  admit(tool: UpstreamTool): void;
  onState(): void;
  onVerdict(verdict: Verdict | undefined): void;
  /** A catalogue that it throws for is not taken over. */
  onCatalogue(catalogue: Catalogue, changed: readonly ListName[]): void;
  onResourceUpdated(uri: string): void;
}

/** A request that can be given up while it waits for its turn. */
type AbortableRequest = UpstreamRequest & { readonly signal: AbortSignal };

/** A server that held out for so long starts with a clean slate when it fails. */
const STEADY = 60_000;
/** So many of its last lines are shown when it is gone. */
const TAIL = 8;
/** How often its lists are read again for a call that came after it told of a change. */
const MOST_READS = 3;
/** Signs of life that a server may owe in a row before it counts as hanging, and how long each is waited for. */
const MOST_SILENCES = 3;
const LONGEST_SILENCE = 10_000;
/** A token that has ended when it is given must not keep the rack busy; a renewal that failed is tried again soon. */
const SHORTEST_RENEWAL = 1_000;
const RENEWAL_AGAIN = 10_000;

const allLists: readonly ListName[] = ["tools", "prompts", "resources"];

/**
 * One upstream server and the care for it, as one state machine: starts it without making anybody wait, notices when it is
 * gone, tries again with growing pauses, and lets calls fail at once in between. Renews its tokens, reads its lists again,
 * and ends its process while nobody uses it.
 */
export class Upstream {
  readonly key: string;
  readonly entry: ServerEntry;
  readonly lines: RecentLines;
  /** For what is said of it. */
  readonly mask: (text: string) => string;
  readonly #options: UpstreamOptions;
  #limits: UpstreamLimits;
  readonly #bulkhead: Bulkhead;

  #state: UpstreamState;
  #reason: string | undefined;
  #since = Date.now();
  #failureCount = 0;
  #readyAt = 0;
  #isResting = false;
  /** The server has let us in before, with the same entry. */
  #wasLetIn = false;
  #verdict: Verdict | undefined;
  #catalogue: Catalogue;

  /** The session that is used, and those that are used no longer and have not ended yet. */
  #session: UpstreamSession | undefined;
  readonly #former = new Set<UpstreamSession>();
  readonly #watched = new Set<string>();
  /** By session: the ping that shows whether the server is there. Several calls that wait for it ask once. */
  readonly #pings = new WeakMap<UpstreamSession, Promise<boolean>>();

  /** The attempt to start it, of which there is one at a time; it never rejects. */
  #attempt: Promise<void> | undefined;
  #abort = new AbortController();
  /** When the last attempt began, the one before it, and when the next one will. */
  #attemptAt = 0;
  #formerAttemptAt = 0;
  #nextAttemptAt: number | undefined;
  /** The server was ready a moment ago, and only a session is made anew. Holds until the attempt has ended. */
  #isReopening = false;
  #isStopped = false;

  readonly #attemptTimer = new Timer();
  /** The headers of a session are those that it was opened with, so a new token means a new session. */
  readonly #renewalTimer = new Timer();
  readonly #restTimer = new Timer();
  /** When the lists are read again, after a server told of a change or did not for a long time. */
  #rereading: RereadTimer;
  /** How often the server told that its tools have changed, and up to which of these they were read again. */
  #announced = 0;
  #readUpTo = 0;
  /** Tools that were found to be what was agreed to, by the catalogue that is there. */
  #admitted: { readonly by: Catalogue; readonly tools: WeakSet<UpstreamTool> } | undefined;

  constructor(options: UpstreamOptions) {
    const { key, entry, mask } = options;
    this.#options = options;
    this.key = key;
    this.entry = entry;
    this.mask = mask;
    this.lines = new RecentLines(mask);
    this.#limits = limitsOf(entry.toolrack?.limits);
    this.#bulkhead = new Bulkhead(`The MCP server "${key}"`, this.#limits.concurrency, this.#limits.queue);
    this.#rereading = this.#makeRereading();
    this.#verdict = stillHolds(options.verdict, entry);
    this.#state = options.isEnabled ? "starting" : "disabled";
    this.#catalogue = options.catalogue ?? emptyCatalogue;
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
    const { serverInfo = this.#catalogue.serverInfo } = session ?? {};
    const failures = this.#failures;
    const isClosed = this.#state === "ready" || (this.#state === "starting" && failures === 0);
    return {
      state: this.#state,
      reason: this.#reason,
      since: this.#since,
      resting: this.#isResting,
      circuit: isClosed ? "closed" : this.#state === "starting" ? "half-open" : "open",
      failures,
      nextAttemptAt: this.#nextAttemptAt,
      transport:
        verdict?.transport ?? (isLocal(this.entry) ? "stdio" : this.entry.type === "sse" ? "sse" : "http"),
      era: verdict?.era,
      protocolVersion: session?.protocolVersion,
      serverInfo: serverInfo && { name: serverInfo.name, version: serverInfo.version },
      pid: session?.process?.pid ?? undefined,
      inFlight: this.#bulkhead.inside,
      waiting: this.#bulkhead.waiting,
      noise: session?.process?.noise ?? 0,
    };
  }

  /** The last line that its process wrote, while it cannot be used. */
  get lastWord(): string | undefined {
    const isTold = this.#state !== "ready" && this.#reason !== undefined;
    return isTold ? this.#outlook.lastWords.at(-1) : undefined;
  }

  get #failures(): number {
    return this.#readyAt > 0 && Date.now() - this.#readyAt > STEADY ? 0 : this.#failureCount;
  }

  /** What comes next, and the last words of the run that has ended, also while the next one begins to speak. */
  get #outlook(): Outlook {
    const isTrying = this.#attempt !== undefined;
    const former = isTrying ? this.lines.tail(TAIL, this.#formerAttemptAt, this.#attemptAt) : [];
    const lastWords = former.length > 0 ? former : this.lines.tail(TAIL, this.#attemptAt);
    return { nextAttemptAt: this.#nextAttemptAt, lastWords };
  }

  /** Returns at once. */
  start(): void {
    if (this.#state !== "disabled") void this.#begin();
  }

  /** Ends it, and resolves when nothing of it is left. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#renewalTimer.clear();
    this.#restTimer.clear();
    this.#rereading.end();
    await Promise.all([this.#giveUpAttempt(), this.#endSessions("It was stopped.")]);
  }

  /** Tries anew, whatever happened before. Resolves when it is ready or has failed. */
  async restart(): Promise<void> {
    if (this.#state === "disabled" || this.#isStopped) return;
    await this.#giveUpAttempt();
    await this.#endSessions("It is being restarted.");
    this.#failureCount = 0;
    await this.#begin();
  }

  /** Goes by other limits from now on. What is under way goes on; those of the connection count for the next one. */
  limit(limits: ServerLimits): void {
    this.#limits = limitsOf(limits);
    this.#bulkhead.resize(this.#limits.concurrency, this.#limits.queue);
    this.#restTimer.clear();
    this.#rereading.end();
    this.#rereading = this.#makeRereading();
    if (this.#session === undefined) return;
    this.#beginRest();
    // A change that was told of just now is read later than it would have been, and not missed.
    this.#rereading.soon();
  }

  /** Calls a tool. Rejects with `UpstreamError`, or with the reason of the context's signal. */
  call(tool: UpstreamTool, context: ToolContext): Promise<unknown> {
    const headers = isLocal(this.entry) ? undefined : parameterHeaders(tool.inputSchema, context.input);
    return this.request(new ToolRequest(tool, context, headers, () => this.#admit(tool)));
  }

  /** Sends anything else. */
  request(request: AbortableRequest): Promise<unknown> {
    const session = this.#session;
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

  /** Begins to be told of changes of a resource, also after a new start. Returns a function that ends it. */
  watchResource(uri: string): () => void {
    this.#watched.add(uri);
    void this.#session?.watchResources([uri]);
    return () => {
      this.#watched.delete(uri);
      void this.#session?.unwatchResource(uri);
    };
  }

  async #requestLater(request: AbortableRequest): Promise<unknown> {
    const begin = request.waitingForTurn?.();
    const session = this.#session ?? (await this.#available(request.signal));
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
    return this.#send(this.#session ?? session, request);
  }

  /** Waits for a server that starts for the first time or wakes up; fails at once for one that has failed. */
  async #available(signal: AbortSignal): Promise<UpstreamSession> {
    if (this.#isResting) void this.#begin();
    const isAwaited = this.#isReopening || this.#failures === 0;
    if (isAwaited && this.#attempt !== undefined) await unlessAborted(this.#attempt, signal);
    if (this.#session === undefined) throw this.#absence();
    return this.#session;
  }

  /** Reads again what the server has told of by now: nothing is called on a definition that nobody here has seen. */
  async #catchUp(signal: AbortSignal): Promise<void> {
    const wanted = this.#announced;
    for (let reads = 0; this.#readUpTo < wanted && this.#session !== undefined; reads++) {
      // The first one may have been under way when the server told of the change.
      if (reads === MOST_READS) {
        const text =
          "The server told that its tools have changed, and they could not be read again, so that nothing is called on it. Its log says why.";
        throw new UpstreamError("unavailable", text);
      }
      await unlessAborted(this.#rereading.now(), signal);
    }
  }

  #admit(tool: UpstreamTool): void {
    if (this.#admitted?.by !== this.#catalogue)
      this.#admitted = { by: this.#catalogue, tools: new WeakSet() };
    if (this.#admitted.tools.has(tool)) return;
    this.#options.admit(tool);
    this.#admitted.tools.add(tool);
  }

  /** To be called inside the bulkhead, which it leaves. */
  #send(session: UpstreamSession, request: AbortableRequest): Promise<unknown> {
    this.#restTimer.clear();
    return session.request(request).then(
      (result) => {
        this.#leave();
        return result;
      },
      (thrown: unknown) => {
        if (thrown instanceof UpstreamError)
          return this.#recover(thrown, session, request).finally(() =>
            thrown.kind === "timeout" ? this.#leaveUnanswered(session) : this.#leave(),
          );
        this.#leaveUnanswered(session);
        throw thrown;
      },
    );
  }

  #leave(): void {
    this.#bulkhead.leave();
    this.#beginRest();
  }

  /** The next call waits until the server shows that it is there: this one was given up, and never answered. */
  #leaveUnanswered(session: UpstreamSession): void {
    if (this.#bulkhead.waiting === 0 || session !== this.#session) this.#leave();
    else void this.#isHeardFrom(session).then(() => this.#leave());
    void this.#replaceSilent(session);
  }

  /** False when the server says nothing. A server that knows no such method answers that too. Never rejects. */
  #isHeardFrom(session: UpstreamSession): Promise<boolean> {
    let ping = this.#pings.get(session);
    if (ping === undefined) {
      const isAnswer = (thrown: unknown) => !(thrown instanceof UpstreamError && thrown.kind === "timeout");
      ping = session
        .request({ method: "ping", params: {}, timeout: LONGEST_SILENCE })
        .then(() => true, isAnswer)
        .finally(() => this.#pings.delete(session));
      this.#pings.set(session, ping);
    }
    return ping;
  }

  /** A server that hangs is parted with, and started anew. Calls that wait for an answer of it go on waiting. */
  async #replaceSilent(session: UpstreamSession): Promise<void> {
    for (let silences = 0; silences < MOST_SILENCES; silences++) {
      if (session !== this.#session || (await this.#isHeardFrom(session))) return;
    }
    this.#lose(
      session,
      new UpstreamError("unavailable", "It left a call and three pings in a row unanswered."),
    );
  }

  /**
   * What becomes of a request that failed, and of the session that it was sent over. A lost session is made anew, and so
   * is one whose token has ended, and the request sent once more: the server that refused it has done nothing. Rejects
   * with what the caller is to be told.
   */
  async #recover(
    error: UpstreamError,
    session: UpstreamSession,
    request: AbortableRequest,
    isSecond = false,
  ): Promise<unknown> {
    const { signIn } = this.#options;
    const { kind, facts } = error;
    if (facts.scope !== undefined) throw missingScope(error, signIn?.want(facts.scope));
    if (kind === "lost") throw loss(this.key, error.message, this.#outlook);
    if (kind === "broken") this.#doubt();
    if (error.concernsOneRequest) throw error;
    if (isSecond && kind === "session") throw new UpstreamError("refused", error.message, facts);
    const isCurrent = session === this.#session;
    // Of a session that is used no longer, somebody has noticed before.
    const canRenew = kind === "unauthorized" && !isSecond && (!isCurrent || signIn?.distrust() === true);
    const canGoOn = kind === "session" || canRenew;
    if (kind === "unauthorized" && !canGoOn && (isSecond || signIn === undefined)) {
      this.#doubt();
      throw refusedCredentials(error, signIn !== undefined);
    }
    if (isCurrent) {
      // Others may still wait for answers over connections of their own.
      this.#partWith(session);
      this.#isReopening = canGoOn;
      if (!canGoOn) this.#failed(error);
    }
    if (!canGoOn) throw this.#absence(error.message);
    if (this.#session === undefined) await unlessAborted(this.#begin(), request.signal);
    const again = this.#session;
    if (again === undefined) throw this.#absence();
    request.admit?.();
    return again.request(request).catch((thrown: unknown) => {
      if (thrown instanceof UpstreamError) return this.#recover(thrown, again, request, true);
      throw thrown;
    });
  }

  /** Whether a server at an address is still there, and lets us in, is seen when its lists are read. */
  #doubt(): void {
    if (!isLocal(this.entry)) this.#rereading.soon();
  }

  /** What callers are told while there is no session. `reason` is for when the state gives none. */
  #absence(reason?: string): UpstreamError {
    return absence(this.key, this.#state, this.#reason ?? reason, this.#outlook);
  }

  /** Joins the attempt that is under way, or begins one. Resolves when it has ended, however. */
  #begin(): Promise<void> {
    this.#forgetNextAttempt();
    if (this.#attempt === undefined && !this.#isStopped) {
      this.#abort = new AbortController();
      this.#formerAttemptAt = this.#attemptAt;
      this.#attemptAt = Date.now();
      this.#attempt = this.#connect(this.#abort.signal).finally(() => {
        this.#attempt = undefined;
        this.#isReopening = false;
      });
    }
    return this.#attempt ?? Promise.resolve();
  }

  #forgetNextAttempt(): void {
    this.#attemptTimer.clear();
    this.#nextAttemptAt = undefined;
  }

  /** Gives up the attempt that is under way, and the next one. Resolves when nothing is under way. */
  async #giveUpAttempt(): Promise<void> {
    this.#forgetNextAttempt();
    this.#abort.abort();
    await this.#attempt;
  }

  async #connect(signal: AbortSignal, isSecond = false): Promise<void> {
    const { signIn } = this.#options;
    this.#isResting = false;
    // Where only the token is renewed, calls go on over the session that is there.
    if (this.#session === undefined) this.#enter("starting", this.#failures === 0 ? undefined : this.#reason);
    const prior = stillHolds(this.#verdict, this.entry);
    let session: UpstreamSession | undefined;
    try {
      session = await this.#open(prior, signal);
      await this.#prepare(session, signal);
    } catch (thrown) {
      await session?.close();
      if (signal.aborted) return;
      if (thrown instanceof UpstreamError) {
        if (thrown.facts.scope !== undefined) signIn?.want(thrown.facts.scope);
        else if (!isSecond && thrown.asksForCredentials && signIn?.distrust())
          return this.#connect(signal, true);
        // It may speak another protocol than was remembered; then the next attempt finds out anew.
        if (prior !== undefined && thrown.concernsOneRequest) this.#remember(undefined);
      }
      this.#failed(thrown);
    }
  }

  /** Starts or reaches the server as its entry says now, with the credentials of now. */
  async #open(prior: Verdict | undefined, signal: AbortSignal): Promise<UpstreamSession> {
    const { key, place, problem, surroundings, identity, clientInfo, packages, signIn, hold } = this.#options;
    if (problem !== undefined) throw new ConfigurationError(problem);
    refuseCircle(problemOfStart(identity));
    const entry = await resolveEntry(this.entry, `${place}: ${key}`, surroundings);
    const { directory } = surroundings;
    const address = (await readServerAddress(directory))?.url;
    refuseCircle(problemOfOwnEntry(this.entry, directory, address));
    // Before anything of the server can be heard.
    hold(credentialsIn(entry, this.entry));
    const credentials = await signIn?.headers();
    // Imported late: a workspace without upstream servers never loads the client.
    const { connectUpstream } = await import("./protocol/connect.ts");
    return connectUpstream({
      server: key,
      entry: entry.kind === "address" ? { ...entry, headers: { ...entry.headers, ...credentials } } : entry,
      prior,
      fingerprint: fingerprintOf(this.entry),
      lines: this.lines,
      clientInfo,
      racks: racksFor(identity),
      packages,
      timeout: this.#limits.connect,
      patience: this.#limits.question,
      signal,
    });
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
      onResourceUpdated: (uri) => this.#options.onResourceUpdated(uri),
      onLost: (reason) => this.#lose(session, reason),
    });
    // Stopping it does not wait for a server that takes its time over its lists.
    const reading = this.#read(session);
    await unlessAborted(reading, signal);
    const catalogue = await reading;
    await unlessAborted(session.watchResources(this.#watched), signal);
    if (signal.aborted || session.isClosed) {
      throw new UpstreamError("unavailable", "It ended before it was ready.");
    }
    this.#take(catalogue, allLists);
    // Requests that are under way over the session before come to their ends there.
    if (this.#session !== undefined) this.#partWith(this.#session);
    this.#session = session;
    isUsed = true;
    this.#wasLetIn = true;
    this.#readyAt = Date.now();
    const { renewAt } = this.#options.signIn ?? {};
    this.#renewalTimer.clear();
    if (renewAt !== undefined) this.#renewAfter(Math.max(renewAt - Date.now(), SHORTEST_RENEWAL));
    this.#remember(session.verdict);
    this.#enter("ready");
    this.#readUpTo = this.#announced;
    // What it told of while its lists were read may not be in them.
    if (isBehind) this.#noteChange("tools");
    else this.#rereading.later();
    this.#beginRest();
  }

  #renewAfter(pause: number): void {
    this.#renewalTimer.set(pause, () => void this.#begin());
  }

  #lose(session: UpstreamSession, reason: UpstreamError): void {
    if (session !== this.#session) return;
    this.#partWith(session);
    if (!this.#isStopped) this.#failed(reason);
  }

  /** Uses a session no longer. It ends once nobody waits for an answer over it. */
  #partWith(session: UpstreamSession): void {
    if (session === this.#session) this.#session = undefined;
    this.#former.add(session);
    void session.retire().finally(() => this.#former.delete(session));
  }

  /** Resolves when nothing is left of any session, also of those that were lost before. */
  async #endSessions(why: string): Promise<void> {
    if (this.#session !== undefined) this.#partWith(this.#session);
    const reason = new UpstreamError("unavailable", why);
    await Promise.all([...this.#former].map((session) => session.close(reason)));
  }

  #failed(thrown: unknown): void {
    const { signIn } = this.#options;
    // What it offered are tools of this rack, which would be offered here twice.
    if (thrown instanceof RackCircle) this.#take(emptyCatalogue, allLists);
    const { key, mask } = this;
    const { state, reason } = stateAfter(thrown, { key, canSignIn: signIn !== undefined, mask });
    this.lines.add("rack", reason);
    if (this.#session !== undefined) {
      if (state !== "needs-auth" || signIn?.view.signedIn !== false) {
        // Only the renewal failed: the session that is there is used until the server refuses it.
        this.#renewAfter(RENEWAL_AGAIN);
        return;
      }
      this.#partWith(this.#session);
    }
    this.#failureCount = this.#failures + 1;
    this.#readyAt = 0;
    // Credentials of the entry that were good before may be good again, while a token that was signed in for is not.
    const isTriedAgain =
      state === "backoff" || (state === "needs-auth" && this.#wasLetIn && signIn === undefined);
    if (isTriedAgain) {
      const pause = Math.max(pauseAfter(this.#failureCount), waitWanted(thrown));
      this.#nextAttemptAt = Date.now() + pause;
      this.#attemptTimer.set(pause, () => void this.#begin());
    }
    this.#enter(state, reason);
  }

  #enter(state: UpstreamState, reason?: string): void {
    if (state === this.#state && reason === this.#reason) return;
    this.#state = state;
    this.#reason = reason;
    this.#since = Date.now();
    if (reason !== undefined && state !== "starting") {
      const { lastWord } = this;
      const words = lastWord === undefined ? "" : ` Its last words: ${lastWord}`;
      this.#options.logger.warn(`MCP server "${this.key}": ${state}. ${reason}${words}`);
    }
    this.#options.onState();
  }

  #remember(verdict: Verdict | undefined): void {
    const isNew = verdict?.at !== this.#verdict?.at || verdict?.era !== this.#verdict?.era;
    this.#verdict = verdict;
    if (isNew) this.#options.onVerdict(verdict);
  }

  async #read(session: UpstreamSession): Promise<Catalogue> {
    const onProblem = (text: string) => this.lines.add("rack", text);
    const options = { timeout: this.#limits.list, before: this.#catalogue, onProblem };
    const catalogue = await readCatalogue(session, options);
    refuseCircle(problemOfCircle(catalogue.racks ?? [], this.#options.identity));
    return catalogue;
  }

  /** A catalogue that cannot be shown is not taken over: then what was shown before stays. */
  #take(catalogue: Catalogue, changed: readonly ListName[]): void {
    const before = this.#catalogue;
    this.#catalogue = catalogue;
    try {
      if (changed.length > 0) this.#options.onCatalogue(catalogue, changed);
    } catch (thrown) {
      this.#catalogue = before;
      throw thrown;
    }
  }

  #noteChange(list: ListName): void {
    if (list === "tools") this.#announced++;
    this.#rereading.soon();
  }

  #makeRereading(): RereadTimer {
    const isTold = () => this.#session?.tellsOfChanges !== false;
    return new RereadTimer(this.#limits.refresh, () => this.#reread(), isTold);
  }

  /** Reads everything again. What was read over a session that is used no longer when it comes counts for nothing. */
  async #reread(): Promise<void> {
    const session = this.#session;
    if (session === undefined) return;
    const isUsed = () => session === this.#session;
    const announced = this.#announced;
    try {
      const before = this.#catalogue;
      const catalogue = await this.#read(session);
      if (!isUsed()) return;
      this.#take(catalogue, changedLists(before, catalogue));
      this.#readUpTo = announced;
    } catch (thrown) {
      if (isUsed() && this.#endedBy(thrown, session)) return;
      this.lines.add("rack", `Its lists could not be read again: ${reasonOf(thrown)}`);
    }
    if (isUsed()) this.#rereading.later();
  }

  /** Says whether a failure to read the lists was the end of the session, and goes on from there. */
  #endedBy(thrown: unknown, session: UpstreamSession): boolean {
    if (thrown instanceof RackCircle) {
      this.#partWith(session);
      this.#failed(thrown);
      return true;
    }
    if (!(thrown instanceof UpstreamError)) return false;
    const { kind } = thrown;
    if (kind === "session") {
      // The server is there and has forgotten the session. Calls wait for the next one.
      this.#partWith(session);
      this.#isReopening = true;
      void this.#begin();
      return true;
    }
    // A token that has ended is renewed when the next call needs it.
    const isUnwelcome = kind === "unauthorized" && this.#options.signIn === undefined;
    if (!isUnwelcome && kind !== "unavailable" && kind !== "lost") return false;
    this.#lose(session, thrown);
    return true;
  }

  /** From now on nobody uses it, where no call is under way: a process is ended after a while. */
  #beginRest(): void {
    const { rest } = this.#limits;
    if (rest === undefined || !isLocal(this.entry) || this.#bulkhead.inside > 0) return;
    this.#restTimer.set(rest, () => {
      const session = this.#session;
      if (session === undefined || this.#bulkhead.inside > 0) return;
      this.#partWith(session);
      this.#isResting = true;
      this.#failureCount = 0;
      this.#options.onState();
    });
  }
}
