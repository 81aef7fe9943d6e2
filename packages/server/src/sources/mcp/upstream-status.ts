import type { Attempts } from "./attempts.ts";
import type { Bulkhead } from "./bulkhead.ts";
import type { Catalogue } from "./catalogue/catalogue.ts";
import { commandFor } from "./command-for.ts";
import type { Condition } from "./condition.ts";
import { isLocal, type ServerEntry } from "./config/server-entry.ts";
import { sentence } from "./protocol/sentence.ts";
import type { UpstreamSession } from "./protocol/upstream-session.ts";
import type { Verdict } from "./protocol/verdict.ts";

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
