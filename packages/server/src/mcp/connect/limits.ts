import { problemOfOwnEntry, problemOfStart, racksFor } from "../../calls/index.ts";
import { readServerAddress } from "../../config/index.ts";
import type { ServerLimits } from "./config/entry.ts";
import { credentialsIn } from "./config/hidden.ts";
import { resolveEntry } from "./config/resolve-entry.ts";
import type { ConnectOptions } from "./protocol/connect.ts";
import { UpstreamError } from "./protocol/failures.ts";
import { fingerprintOf } from "./protocol/questions.ts";
import type { UpstreamSession } from "./protocol/session.ts";
import type { UpstreamParts } from "./upstream.ts";
import { ConfigurationError, refuseCircle } from "./upstream-state.ts";

interface Waiting {
  readonly enter: () => void;
  readonly leave: (reason: unknown) => void;
}

/** How many calls one server is given at a time. Further ones wait their turn, and only so many may wait. */
export class Bulkhead {
  readonly #server: string;
  #size: number;
  #queue: number;
  readonly #waiting = new Set<Waiting>();
  #inside = 0;

  /** `server` is how messages call it. */
  constructor(server: string, size: number, queue: number) {
    this.#server = server;
    this.#size = size;
    this.#queue = queue;
  }

  get inside(): number {
    return this.#inside;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  get hasRoom(): boolean {
    return this.#inside < this.#size;
  }

  /** Undefined when there is room at once. Whoever came in must `leave`. Rejects with the signal's reason. */
  enter(of: { readonly signal: AbortSignal }): Promise<void> | undefined {
    if (this.hasRoom) {
      this.#inside++;
      return undefined;
    }
    if (this.#waiting.size >= this.#queue) {
      throw new UpstreamError(
        "busy",
        `${this.#server} already works on ${this.#inside} ${this.#inside === 1 ? "call" : "calls"}, and ${this.#waiting.size} more wait for it. Make fewer calls at one time.`,
      );
    }
    const { signal } = of;
    return new Promise((resolve, reject) => {
      const onAbort = () => waiting.leave(signal.reason);
      const waiting: Waiting = {
        enter: () => {
          signal.removeEventListener("abort", onAbort);
          this.#inside++;
          resolve();
        },
        leave: (reason) => {
          this.#waiting.delete(waiting);
          reject(reason);
        },
      };
      this.#waiting.add(waiting);
      signal.addEventListener("abort", onAbort, { once: true });
    });
  }

  leave(): void {
    this.#inside--;
    this.#admit();
  }

  /** Those who are inside or wait already stay, also where that is more than there may be from now on. */
  resize(size: number, queue: number): void {
    this.#size = size;
    this.#queue = queue;
    while (this.hasRoom && this.#waiting.size > 0) this.#admit();
  }

  #admit(): void {
    if (!this.hasRoom) return;
    const [next] = this.#waiting;
    if (next === undefined) return;
    this.#waiting.delete(next);
    next.enter();
  }
}

const defaults = {
  connect: 60_000,
  list: 30_000,
  concurrency: 16,
  queue: 256,
  question: 300_000,
  refresh: 600_000,
} as const satisfies ServerLimits;

/** The limits that every server has, and those that it may have. */
export type UpstreamLimits = Required<Pick<ServerLimits, keyof typeof defaults>> & ServerLimits;

export function limitsOf(given: ServerLimits | undefined): UpstreamLimits {
  return { ...defaults, ...given };
}

/** The session that is used, and those that are used no longer and have not ended yet. */
export class Sessions {
  current: UpstreamSession | undefined;
  readonly #former = new Set<UpstreamSession>();

  /** What is under way over the one before comes to its end there. */
  use(session: UpstreamSession): void {
    if (this.current !== undefined) this.partWith(this.current);
    this.current = session;
  }

  /** Uses it no longer. It ends once nobody waits for an answer over it. */
  partWith(session: UpstreamSession): void {
    if (session === this.current) this.current = undefined;
    this.#former.add(session);
    void session.retire().finally(() => this.#former.delete(session));
  }

  /** Resolves when nothing is left of any of them, also of those that were lost before. */
  async end(why: string): Promise<void> {
    if (this.current !== undefined) this.partWith(this.current);
    const reason = new UpstreamError("unavailable", why);
    await Promise.all([...this.#former].map((session) => session.close(reason)));
  }
}

/** Starts or reaches a server as its entry says now, with the credentials of now. */
export async function openSession(
  parts: UpstreamParts,
  limits: UpstreamLimits,
  { prior, lines, signal }: Pick<ConnectOptions, "prior" | "lines" | "signal">,
): Promise<UpstreamSession> {
  const { key, place, problem, surroundings, identity, clientInfo, packages, signIn } = parts;
  if (problem !== undefined) throw new ConfigurationError(problem);
  refuseCircle(problemOfStart(identity));
  const entry = await resolveEntry(parts.entry, `${place}: ${key}`, surroundings).catch((error: Error) => {
    throw new ConfigurationError(error.message);
  });
  const { directory } = surroundings;
  const address = (await readServerAddress(directory))?.url;
  refuseCircle(problemOfOwnEntry(parts.entry, directory, address));
  // Before anything of the server can be heard.
  parts.hold(credentialsIn(entry, parts.entry));
  const credentials = await signIn?.headers();
  // Imported late: a workspace without upstream servers never loads the client.
  const { connectUpstream } = await import("./protocol/connect.ts");
  return connectUpstream({
    server: key,
    entry: entry.kind === "address" ? { ...entry, headers: { ...entry.headers, ...credentials } } : entry,
    prior,
    fingerprint: fingerprintOf(parts.entry),
    lines,
    clientInfo,
    racks: racksFor(identity),
    packages,
    timeout: limits.connect,
    patience: limits.question,
    signal,
  });
}
