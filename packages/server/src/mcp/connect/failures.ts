import {
  type CodedReason,
  DependencyError,
  type ReasonDetails,
  reasonOf,
  shellQuote,
} from "../../helpers/index.ts";

/**
 * Why an upstream server did not answer. `unavailable`: the server is not running, and nothing was sent. `lost`: the
 * server or its connection ended after the request was sent, so the server may have done something. `refused`: it
 * answered with a JSON-RPC error or an HTTP status. `broken`: this answer is unusable or incomplete; the next may be
 * fine. `session`: the server no longer knows our session, and did nothing. `busy`: too many requests wait for the
 * server. `unauthorized`: the server wants credentials. `timeout`: no answer came in time.
 */
type FailureKind =
  | "unavailable"
  | "lost"
  | "refused"
  | "broken"
  | "session"
  | "busy"
  | "unauthorized"
  | "timeout";

/** Why a server is not ready, for programs that have words of their own for it. */
export const serverReasonCodes = [
  "secret_missing",
  "setting_missing",
  "variable_missing",
  "entry_unusable",
  "circle",
  "credentials_wanted",
  "package_missing",
  "program_missing",
  "program_ended",
  "handshake_slow",
  "unreachable",
  "refused",
  "answer_unusable",
  "silent",
  "unavailable",
  "waits_for_caller",
  "not_signed_in",
] as const;
export type ServerReasonCode = (typeof serverReasonCodes)[number];
export type ServerReason = CodedReason<ServerReasonCode>;
type Why = Omit<ServerReason, "reason">;

/** The facts about a refusal that are known besides its text. */
export interface RefusalFacts {
  /** The code of the reason, and its values, if the kind of the error is not enough to tell them. */
  readonly why?: Why | undefined;
  /** The code of a JSON-RPC error. */
  readonly code?: number | undefined;
  /** The data of a JSON-RPC error. */
  readonly data?: unknown;
  /** The HTTP status. */
  readonly status?: number | undefined;
  /** How long the server asks to wait before the next request, in seconds. */
  readonly retryAfter?: number | undefined;
  /** The OAuth scope that the server wants granted. Empty when it did not say which. */
  readonly scope?: string | undefined;
}

export class UpstreamError extends Error {
  override readonly name = "UpstreamError";
  readonly kind: FailureKind;
  readonly facts: RefusalFacts;

  constructor(
    kind: FailureKind,
    message: string,
    { cause, ...facts }: RefusalFacts & { readonly cause?: unknown } = {},
  ) {
    super(message, cause === undefined ? undefined : { cause });
    this.kind = kind;
    this.facts = facts;
  }

  /** The JSON-RPC error code of the server, which MCP clients receive. */
  get code(): number | undefined {
    return this.facts.code;
  }

  get data(): unknown {
    return this.facts.data;
  }

  /** Whether the failure concerns only this request, and not the connection. */
  get concernsOneRequest(): boolean {
    return ["refused", "broken", "timeout", "busy"].includes(this.kind);
  }

  /** Whether the server wants other credentials or a larger scope. */
  get asksForCredentials(): boolean {
    return this.kind === "unauthorized" || this.facts.scope !== undefined;
  }
}

/** How the process of a server ended. */
export type ProcessEnd = { readonly exitCode: number } | { readonly signal: string };

/** The error after the process of a server ended. `when`: the end of the sentence, such as ` before it was asked`. */
export function processEnded(end: ProcessEnd, when = "", cause?: unknown): UpstreamError {
  const how = "signal" in end ? `was ended by ${end.signal}` : `ended with exit code ${end.exitCode}`;
  const why = { code: "program_ended", details: { ...end } } as const;
  return new UpstreamError("unavailable", `It ${how}${when}.`, { why, cause });
}

/** An error that only a person can fix, mostly in the entry of the server. Trying again does not help. */
export class ConfigurationError extends Error {
  override readonly name = "ConfigurationError";
  readonly why: Why | undefined;

  constructor(message: string, why?: Why) {
    super(message);
    this.why = why;
  }
}

/** The error for an upstream server through which a rack would reach itself. */
export class RackCircle extends ConfigurationError {}

/** Throws a `RackCircle` when there is a problem. The problem says how the server would lead back to this rack. */
export function refuseCircle(problem: string | undefined): void {
  if (problem !== undefined) throw new RackCircle(problem);
}

/** The text with a full stop, so that another sentence can follow. */
export function sentence(text: string): string {
  const trimmed = text.trim();
  return trimmed === "" || /[.!?…:]$/.test(trimmed) ? trimmed : `${trimmed}.`;
}

/** The command line for an action on a server. Quotes words with spaces. */
export function commandFor(action: string, ...words: readonly string[]): string {
  return ["toolrack mcp-servers", action, ...words.map(shellQuote)].join(" ");
}

/** The reason of an API at which a person has to sign in, and nobody has. */
export function notSignedIn(key: string): ServerReason {
  const reason = `Nobody has signed in at the API "${key}". Sign in: toolrack apis login ${shellQuote(key)}, or on its page in the console.`;
  return { reason, code: "not_signed_in", details: { key } };
}

/** An upstream: its key, and its entry as far as that says what it is. */
export interface Named {
  readonly key: string;
  readonly entry: { readonly api?: unknown };
}

/** The name of an upstream in sentences: `MCP server "key"` or `API "key"`. */
export function nameOf({ key, entry }: Named): string {
  return `${entry.api === undefined ? "MCP server" : "API"} "${key}"`;
}

/** The longest reason of a server that is shown, in characters. */
const LONGEST_REASON = 600;
/** The longest wait that a server may ask for, in milliseconds. */
const LONGEST_WAIT = 60 * 60_000;

/**
 * The state of a server after a failure. Only `backoff` ends by itself; the others need a person. The reason is masked,
 * because servers and programs repeat secrets that they were given. `explanation`: what the server's process printed that
 * says why.
 */
export function stateAfter(
  thrown: unknown,
  {
    key,
    canSignIn,
    mask,
    remedy: otherRemedy,
    explanation,
  }: {
    key: string;
    canSignIn: boolean;
    mask: (text: string) => string;
    /** What to do about refused credentials, instead of the usual advice. */
    remedy?: string | undefined;
    explanation?: string | undefined;
  },
): ServerReason & { readonly state: "needs-auth" | "failed" | "backoff" } {
  let message = mask(reasonOf(thrown));
  if (thrown instanceof UpstreamError) {
    // The reason that a server gives may be a page long.
    message = message.replace(/\s+/g, " ");
    if (message.length > LONGEST_REASON) message = `${message.slice(0, LONGEST_REASON)}…`;
  }
  message = sentence(message);
  const { code, details: values = {} } = whyOf(thrown);
  const masked = Object.entries(values).map(([name, value]) => [
    name,
    typeof value === "string" ? mask(value) : value,
  ]);
  const wrote = explanation === undefined ? {} : { wrote: explanation };
  const details: ReasonDetails = { said: message, ...Object.fromEntries(masked), ...wrote };
  if (explanation !== undefined) message += ` It wrote: ${explanation}`;
  if (thrown instanceof UpstreamError && thrown.asksForCredentials) {
    const usualRemedy = canSignIn
      ? `Sign in: ${commandFor("login", key)}, or on its page in the console. For a server that takes a fixed token, give its entry a header "Authorization": "Bearer …" with the token kept as a secret.`
      : `It does not take the credentials of its entry. Put others there, kept as a secret, then restart it: ${commandFor("restart", key)}`;
    const reason = `It asks for credentials: ${message} ${otherRemedy ?? usualRemedy}`;
    return {
      state: "needs-auth",
      reason,
      code: "credentials_wanted",
      details: { ...details, key, canSignIn },
    };
  }
  const isFinal =
    thrown instanceof ConfigurationError || isMissingPackage(thrown) || isMissingProgram(thrown);
  return { state: isFinal ? "failed" : "backoff", reason: message, code, details };
}

const codesOfKinds: Readonly<Record<FailureKind, ServerReasonCode>> = {
  unavailable: "unavailable",
  lost: "unavailable",
  refused: "refused",
  broken: "answer_unusable",
  session: "refused",
  busy: "unavailable",
  unauthorized: "credentials_wanted",
  timeout: "silent",
};

function whyOf(thrown: unknown): Why {
  if (thrown instanceof UpstreamError && thrown.facts.why !== undefined) return thrown.facts.why;
  if (thrown instanceof RackCircle) return { code: "circle" };
  if (thrown instanceof ConfigurationError) return thrown.why ?? { code: "entry_unusable" };
  if (isMissingPackage(thrown)) return { code: "package_missing" };
  if (isMissingProgram(thrown)) return { code: "program_missing" };
  return { code: thrown instanceof UpstreamError ? codesOfKinds[thrown.kind] : "unavailable" };
}

/** Whether the npm registry has no such package or version. An error without a package name has another cause. */
function isMissingPackage(thrown: unknown): boolean {
  return thrown instanceof DependencyError && thrown.packageName !== undefined && !thrown.isTemporary;
}

function isMissingProgram(thrown: unknown): boolean {
  for (let at: unknown = thrown; at instanceof Error; at = at.cause)
    if ("code" in at && (at.code === "ENOENT" || at.code === "EACCES")) return true;
  return false;
}

/** How long a server asks to wait before it is tried again, in milliseconds. */
export function waitWanted(thrown: unknown): number {
  const seconds = thrown instanceof UpstreamError ? (thrown.facts.retryAfter ?? 0) : 0;
  return Math.min(seconds * 1_000, LONGEST_WAIT);
}

/** When an unavailable server is tried again, and the last lines of its output. */
export interface Outlook {
  readonly nextAttemptAt: number | undefined;
  readonly lastWords: readonly string[];
}

/** The error for a call while the server is unavailable: what happened, what comes next, and its last output. */
export function absence(
  upstream: Named,
  state: string,
  reason: string | undefined,
  outlook: Outlook,
): UpstreamError {
  const how = state === "ready" ? "not running" : state;
  const why = reason === undefined ? "" : `${sentence(reason)} `;
  const text = `The ${nameOf(upstream)} is not available (${how}). ${why}${describeOutlook(upstream.key, outlook)}`;
  return new UpstreamError("unavailable", text);
}

/** The error for a call that was sent before the server was lost. The server may have done something. */
export function loss(upstream: Named, reason: string, outlook: Outlook): UpstreamError {
  return new UpstreamError(
    "lost",
    `The ${nameOf(upstream)} was lost before it answered. ${sentence(reason)} What it had already done may stand: check before calling it again. ${describeOutlook(upstream.key, outlook)}`,
  );
}

function describeOutlook(key: string, { nextAttemptAt, lastWords }: Outlook): string {
  const next =
    nextAttemptAt === undefined
      ? `See: ${commandFor("show", key)}`
      : `It is started again in ${Math.max(0.1, Math.round((nextAttemptAt - Date.now()) / 100) / 10)} s.`;
  return lastWords.length === 0 ? next : `${next}\nIts last words:\n${lastWords.join("\n")}`;
}

/**
 * Describes a failure with the name of the server. `what`: what the server refused, either `the call` or the
 * method of a request.
 */
export function describeFailure(
  upstream: Named,
  what: string,
  { kind, message, facts }: UpstreamError,
): string {
  // Messages of these kinds contain the name of the server already.
  if (kind === "unavailable" || kind === "lost" || kind === "busy") return message;
  if (kind === "broken") return `The ${nameOf(upstream)} gave no usable answer: ${message}`;
  if (kind === "timeout") return `The ${nameOf(upstream)} gave no answer: ${message}`;
  const code = facts.code === undefined ? "" : ` (code ${facts.code})`;
  return `The ${nameOf(upstream)} refused ${what}: ${message}${code}`;
}

/**
 * The error for a request that needs a larger scope than was granted. `remedy`: what `SignIn.requireScope`
 * advises; undefined for a server without a sign-in.
 */
export function missingScope({ facts }: UpstreamError, remedy: string | undefined): UpstreamError {
  const wanted = facts.scope ? `the scope "${facts.scope}"` : "more than that";
  const advice = remedy ?? "Give its entry a token that covers it, kept as a secret.";
  const text = `What the rack was granted there does not cover it: it asks for ${wanted}. ${advice}`;
  return new UpstreamError("refused", text, facts);
}

/**
 * The error when the server refuses credentials that worked for other requests and a new sign-in would not help: those of
 * its entry, or a token that was just renewed.
 */
export function refusedCredentials({ message, facts }: UpstreamError, isSignedIn: boolean): UpstreamError {
  const remedy = isSignedIn
    ? "Its token was renewed a moment ago, so another one does not help: whoever signed in may not do this there."
    : "The headers of its entry may not cover this, or hold no longer: look at them if it happens again.";
  return new UpstreamError("refused", `${sentence(message)} ${remedy}`, facts);
}
