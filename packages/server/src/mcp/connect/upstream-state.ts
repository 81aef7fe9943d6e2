import { DependencyError } from "../../helpers/index.ts";
import type { Catalogue } from "./catalogue/catalogue.ts";
import { isLocal, type ServerEntry } from "./config/entry.ts";
import type { Bulkhead } from "./limits.ts";
import { commandFor } from "./managed-server.ts";
import { sentence, UpstreamError } from "./protocol/failures.ts";
import type { Verdict } from "./protocol/questions.ts";
import type { UpstreamSession } from "./protocol/session.ts";
import type { SignIn } from "./sign-in/sign-in.ts";
import type { Attempts } from "./upstream-timers.ts";

export type UpstreamState = "starting" | "ready" | "needs-auth" | "backoff" | "failed" | "disabled";

/** What may be seen of a server at a moment. */
export interface UpstreamStatus {
  readonly state: UpstreamState;
  /** Why it is not ready. */
  readonly reason?: string;
  /** Since when it is in this state. Milliseconds since the epoch, as are the others. */
  readonly since: number;
  /** Its process was ended because nobody called it; the next call starts it. */
  readonly resting: boolean;
  /** `open`: calls fail at once. `half-open`: it is being tried again. */
  readonly circuit: "closed" | "open" | "half-open";
  /** How often it failed in a row. */
  readonly failures: number;
  readonly nextAttemptAt?: number;
  readonly transport: Verdict["transport"];
  readonly era?: Verdict["era"];
  readonly protocolVersion?: string;
  readonly serverInfo?: { readonly name: string; readonly version: string };
  readonly pid?: number;
  readonly inFlight: number;
  readonly waiting: number;
  /** Lines on its standard output that were no messages. */
  readonly noise: number;
}

/** What the status of a server is made of. */
interface StatusParts {
  readonly entry: ServerEntry;
  readonly condition: Pick<Condition, "state" | "reason" | "since" | "failures">;
  readonly attempts: Pick<Attempts, "nextAt">;
  readonly session: UpstreamSession | undefined;
  /** What is known where there is no session. */
  readonly verdict: Verdict | undefined;
  readonly catalogue: Catalogue;
  readonly bulkhead: Pick<Bulkhead, "inside" | "waiting">;
  readonly isResting: boolean;
}

export function statusOf({ session, ...parts }: StatusParts): UpstreamStatus {
  const { entry, condition, attempts, catalogue, bulkhead, isResting } = parts;
  const { state, reason, since, failures } = condition;
  const verdict = session?.verdict ?? parts.verdict;
  const serverInfo = session?.serverInfo ?? catalogue.serverInfo;
  return {
    state,
    ...(reason === undefined ? {} : { reason }),
    since,
    resting: isResting,
    circuit: circuitOf(state, failures),
    failures,
    ...(attempts.nextAt === undefined ? {} : { nextAttemptAt: attempts.nextAt }),
    transport: verdict?.transport ?? (isLocal(entry) ? "stdio" : entry.type === "sse" ? "sse" : "http"),
    ...(verdict === undefined ? {} : { era: verdict.era }),
    ...(session?.protocolVersion === undefined ? {} : { protocolVersion: session.protocolVersion }),
    ...(serverInfo === undefined
      ? {}
      : { serverInfo: { name: serverInfo.name, version: serverInfo.version } }),
    ...(session?.pid === undefined ? {} : { pid: session.pid }),
    inFlight: bulkhead.inside,
    waiting: bulkhead.waiting,
    noise: session?.noise ?? 0,
  };
}

function circuitOf(state: UpstreamState, failures: number): UpstreamStatus["circuit"] {
  if (state === "ready") return "closed";
  if (state === "starting") return failures === 0 ? "closed" : "half-open";
  return "open";
}

/** What a caller is told who cannot be served now: what happened, what comes next, and what the server said last. */
export function describeAbsence(
  key: string,
  { state, reason, nextAttemptAt }: Pick<UpstreamStatus, "state" | "reason" | "nextAttemptAt">,
  lastWords: readonly string[],
): string {
  const how = state === "ready" ? "not running" : state;
  const why = reason === undefined ? "" : `${sentence(reason)} `;
  return `The MCP server "${key}" is not available (${how}). ${why}${outlook(key, nextAttemptAt, lastWords)}`;
}

/** What a caller is told whose request the server had been sent when it was lost: unlike above, it may have done something. */
export function describeLoss(
  key: string,
  { reason, nextAttemptAt }: { readonly reason: string; readonly nextAttemptAt?: number },
  lastWords: readonly string[],
): string {
  return `The MCP server "${key}" was lost before it answered. ${sentence(reason)} What it had already done may stand: check before calling it again. ${outlook(key, nextAttemptAt, lastWords)}`;
}

function outlook(key: string, nextAttemptAt: number | undefined, lastWords: readonly string[]): string {
  const next =
    nextAttemptAt === undefined
      ? `See: ${commandFor("show", key)}`
      : `It is started again in ${Math.max(0, Math.round((nextAttemptAt - Date.now()) / 100) / 10)} s.`;
  const words = lastWords.length === 0 ? "" : `\nIts last words:\n${lastWords.join("\n")}`;
  return `${next}${words}`;
}

/** A server that held out for so long starts with a clean slate when it fails. */
const STEADY = 60_000;

/** How a server is: its state, why, since when, and how often it has failed in a row. */
export class Condition {
  #state: UpstreamState;
  #reason: string | undefined;
  #since = Date.now();
  #failures = 0;
  #readyAt = 0;

  constructor(state: UpstreamState) {
    this.#state = state;
  }

  get state(): UpstreamState {
    return this.#state;
  }

  /** Why it is not ready. */
  get reason(): string | undefined {
    return this.#reason;
  }

  get since(): number {
    return this.#since;
  }

  get failures(): number {
    return this.#readyAt > 0 && Date.now() - this.#readyAt > STEADY ? 0 : this.#failures;
  }

  /** Says whether that is news. */
  enter(state: UpstreamState, reason: string | undefined): boolean {
    const isNew = state !== this.#state || reason !== this.#reason;
    this.#state = state;
    this.#reason = reason;
    if (isNew) this.#since = Date.now();
    return isNew;
  }

  countSuccess(): void {
    this.#readyAt = Date.now();
  }

  /** Answers how many there were in a row. */
  countFailure(): number {
    this.#failures = this.failures + 1;
    this.#readyAt = 0;
    return this.#failures;
  }

  forgetFailures(): void {
    this.#failures = 0;
  }
}

/** Of what a server says, in characters. */
const LONGEST_REASON = 600;

/** Only a person can mend it, mostly in the entry: trying again changes nothing. */
export class ConfigurationError extends Error {
  override readonly name = "ConfigurationError";
}

/** An upstream server through which a rack would reach itself. */
export class RackCircle extends ConfigurationError {}

/** Throws when there is something that makes the server one of a circle. */
export function refuseCircle(problem: string | undefined): void {
  if (problem !== undefined) throw new RackCircle(problem);
}

/**
 * Where a failure leaves a server. Only `backoff` is left without anybody's doing. `remedy` is what helps where
 * credentials are asked for. Servers and programs repeat what they were given, so the reason is masked here, before
 * anybody has it.
 */
export function stateAfter(
  thrown: unknown,
  remedy: string,
  mask: (text: string) => string,
): { readonly state: UpstreamState; readonly reason: string } {
  const masked = mask(thrown instanceof Error ? thrown.message : String(thrown));
  // What a server says of itself may be a page long.
  const message = sentence(thrown instanceof UpstreamError ? inOneLine(masked) : masked);
  if (asksForCredentials(thrown)) {
    return { state: "needs-auth", reason: `It asks for credentials: ${message} ${remedy}` };
  }
  const isFinal =
    thrown instanceof ConfigurationError || isMissingProgram(thrown) || isMissingPackage(thrown);
  return { state: isFinal ? "failed" : "backoff", reason: message };
}

function inOneLine(text: string): string {
  const line = text.replace(/\s+/g, " ");
  return line.length > LONGEST_REASON ? `${line.slice(0, LONGEST_REASON)}…` : line;
}

/** What helps where a server asks for credentials. */
export function remedyFor(key: string, canSignIn: boolean): string {
  if (canSignIn) {
    return `Sign in: ${commandFor("login", key)}, or on its page in the console. For a server that takes a fixed token, give its entry a header "Authorization": "Bearer …" with the token kept as a secret.`;
  }
  return `It does not take the credentials of its entry. Put others there, kept as a secret, then restart it: ${commandFor("restart", key)}`;
}

/** Whether a server does not let us in as who we are. */
export function asksForCredentials(thrown: unknown): boolean {
  if (!(thrown instanceof UpstreamError)) return false;
  return thrown.kind === "unauthorized" || thrown.scope !== undefined;
}

/** The registry has no such package or version. What has no name of a package in it was about something else. */
function isMissingPackage(thrown: unknown): boolean {
  return thrown instanceof DependencyError && thrown.packageName !== undefined && !thrown.isTemporary;
}

function isMissingProgram(thrown: unknown): boolean {
  for (let at: unknown = thrown; at instanceof Error; at = at.cause) {
    const { code } = at as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "EACCES") return true;
  }
  return false;
}

/** Kinds whose texts were made here, with the name of the server in them. */
const named: ReadonlySet<UpstreamError["kind"]> = new Set(["unavailable", "lost", "busy"]);

/** What an upstream server did wrong, said with its name. `what`: the call, or the method that it was asked for. */
export function describeFailure(
  key: string,
  what: string,
  { kind, message, code }: Pick<UpstreamError, "kind" | "message" | "code">,
): string {
  if (named.has(kind)) return message;
  if (kind === "broken") return `The MCP server "${key}" gave no usable answer: ${message}`;
  if (kind === "timeout") return `The MCP server "${key}" gave no answer: ${message}`;
  return `The MCP server "${key}" refused ${what}: ${message}${code === undefined ? "" : ` (code ${code})`}`;
}

/** The same error with the server's name in its text, which is masked; what else was thrown, as it is. */
export function namedFailure(
  key: string,
  what: string,
  thrown: unknown,
  mask: (text: string) => string,
): unknown {
  if (!(thrown instanceof UpstreamError)) return thrown;
  const { kind, facts } = thrown;
  return new UpstreamError(kind, mask(describeFailure(key, what, thrown)), { ...facts, cause: thrown });
}

/** What happened to one request, and says nothing about the others. */
const ofOneRequest: ReadonlySet<UpstreamError["kind"]> = new Set(["refused", "broken", "timeout", "busy"]);

export function concernsOneRequest({ kind }: UpstreamError): boolean {
  return ofOneRequest.has(kind);
}

/** Whether the server may speak another protocol than was thought, and has not simply ended. */
export function isMisunderstanding(thrown: unknown): boolean {
  return thrown instanceof UpstreamError && concernsOneRequest(thrown);
}

/**
 * Whether a new session may do what this one could not: it was forgotten, or its token has ended. `isCurrent`: nobody has
 * noticed that before.
 */
export function canBeSentAgain(
  { kind }: UpstreamError,
  isCurrent: boolean,
  signIn: Pick<SignIn, "distrust"> | undefined,
): boolean {
  if (kind === "session") return true;
  return kind === "unauthorized" && (!isCurrent || signIn?.distrust() === true);
}

/** Who signed in may do less than this request needs. Others go on with what they may. */
export function missingScope(
  { facts }: UpstreamError,
  scope: string,
  signIn: Pick<SignIn, "want"> | undefined,
): UpstreamError {
  const wanted = scope === "" ? "more than that" : `the scope "${scope}"`;
  const remedy = signIn?.want(scope) ?? "Give its entry a token that covers it, kept as a secret.";
  return new UpstreamError(
    "refused",
    `What the rack was granted there does not cover it: it asks for ${wanted}. ${remedy}`,
    facts,
  );
}

/**
 * Whether the server asks for credentials that no signing in can bring: it is sent those of its entry, or refused a token
 * that was renewed a moment ago. Both were good enough for other requests, so that it says nothing about those.
 */
export function isRefusalOfOne(
  { kind }: UpstreamError,
  isSecond: boolean,
  signIn: Pick<SignIn, "want"> | undefined,
): boolean {
  return kind === "unauthorized" && (isSecond || signIn === undefined);
}

export function refusedCredentials(
  { message, facts }: UpstreamError,
  signIn: Pick<SignIn, "want"> | undefined,
): UpstreamError {
  const remedy =
    signIn === undefined
      ? "The headers of its entry may not cover this, or hold no longer: look at them if it happens again."
      : "Its token was renewed a moment ago, so another one does not help: whoever signed in may not do this there.";
  return new UpstreamError("refused", `${sentence(message)} ${remedy}`, facts);
}

/** So long a server is left alone at most, whatever it asks for, in milliseconds. */
const LONGEST_WAIT = 60 * 60_000;

/** How long a server asks to wait before it is tried again, in milliseconds. */
export function waitWanted(thrown: unknown): number {
  const seconds = thrown instanceof UpstreamError ? (thrown.facts.retryAfter ?? 0) : 0;
  return Math.min(seconds * 1_000, LONGEST_WAIT);
}
