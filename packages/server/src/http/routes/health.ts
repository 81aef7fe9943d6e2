import type { Store } from "../../store/index.ts";
import { mostHeld, StoreUnavailable, type UnavailableReason } from "../../store/index.ts";
import type { HttpServices } from "../services.ts";
import { HttpError, type Route, routesFor, s } from "../wire/index.ts";

const readiness = s.object({
  status: s.choice(["ready", "degraded"]),
  "reason?": s.choice(["away", "busy", "full", "failing", "damaged"]),
  "message?": s.text(),
  "records?": s.map(s.number(), "Records that wait in memory, and how many may."),
  "log?": s.map(s.number(), "Lines of the log that wait in memory, and those that were given up."),
  "freeBytes?": s.number("Room on the disk of the workspace."),
});

/** How long the store may take to answer before it counts as away, in milliseconds. */
const PATIENCE = 2_000;
/** How long the result of a check of the store is reused, in milliseconds. */
const BELIEVED = 1_000;
/** Less free disk space than this counts as full, in bytes. */
const LITTLE_ROOM = 4 * 1024 * 1024;

/** These texts hold no paths and no database messages, which belong in the log. */
const messages: Readonly<Record<UnavailableReason, string>> = {
  away: "The store does not answer. The server connects again by itself when it is back.",
  busy: "The store does not answer: another process keeps it locked.",
  full: "The store does not answer: its disk is full.",
  failing: "The store does not answer: its disk cannot be read or written.",
  damaged: "The store is damaged. Stop the server and run `toolrack doctor --repair`.",
};
const NO_MORE =
  "The store cannot take records, and as many as are kept in memory wait for it. Calls are refused until they are written.";

/** Routes for load balancers, open to all: they show no paths and check the store at most once a second. */
export function healthRoutes({ store, log, prove, guard }: HttpServices): Route[] {
  const route = routesFor("server", "open");
  const probe = storeProbe(store);
  return [
    route("GET /healthz", "health", "Whether the process lives", {
      answer: ["It does.", s.object({ status: s.constant("ok") })],
      handle: () => ({ status: "ok" }),
    }),
    route("GET /readyz", "ready", "Whether the server takes work", {
      description:
        "`degraded`: it takes calls, but the store or the log cannot take what is recorded of them. That waits in memory, up to the limit in the answer, and is written when there is room; from then on the answer is 503 and calls are refused.",
      answer: ["It does.", readiness],
      errors: ["not_ready", "stopping"],
      async handle() {
        if (guard.isStopping || guard.isDraining) throw new HttpError("stopping", "The server is stopping.");
        const { reason, freeBytes } = await probe();
        const { records, bytes, journaled, isFull, reason: heldFor } = store.calls.held;
        const why = reason ?? heldFor;
        const facts = {
          records: { held: records, bytes, journaled, mostHeld: mostHeld.records, mostBytes: mostHeld.bytes },
          log: { held: log.held, lost: log.lost },
          freeBytes,
        };
        if (reason !== undefined) throw notReady(messages[reason], { reason, ...facts });
        if (isFull) throw notReady(NO_MORE, { reason: why, ...facts });
        const message = problem();
        if (message === undefined) return { status: "ready" };
        return { status: "degraded", reason: why ?? "full", message, ...facts };

        function problem(): string | undefined {
          if (records > 0)
            return `The store cannot take records of calls (${why}); they wait in memory and are written when it can.`;
          if (journaled > 0)
            return "The database refuses records of calls; they are safe in the journal beside it.";
          if (log.held > 0) return "The log cannot be written; its lines wait in memory.";
          if (freeBytes !== undefined && freeBytes < LITTLE_ROOM)
            return "There is hardly any room left on the disk of the workspace. Make some.";
          return undefined;
        }
      },
    }),
    route("GET /identity/{nonce}", "identify", "Proves that this is the workspace's server", {
      description:
        "Answers with the HMAC-SHA256 of `toolrack server`, the server's port and the nonce, each on a line, under " +
        "the workspace's own token, in base64url.",
      params: {
        nonce: s.text("Random, and never used before.", { minLength: 16, maxLength: 128 }),
      },
      answer: ["The proof.", s.object({ proof: s.text() })],
      handle: ({ params, incoming }) => ({ proof: prove(incoming.socket.localPort ?? 0, params.nonce) }),
    }),
  ];
}

function notReady(message: string, details: Readonly<Record<string, unknown>>): HttpError {
  return new HttpError("not_ready", message, { details, headers: { "Retry-After": "5" } });
}

interface Probed {
  /** Why the store cannot be read; undefined when it can. */
  readonly reason: UnavailableReason | undefined;
  readonly freeBytes: number | undefined;
}

function storeProbe(store: Store): () => Promise<Probed> {
  let latest: Promise<Probed> | undefined;
  let askedAt = 0;
  return () => {
    const now = performance.now();
    if (latest !== undefined && now - askedAt < BELIEVED) return latest;
    askedAt = now;
    latest = Promise.all([whyUnread(store), store.room()]).then(([reason, freeBytes]) => ({
      reason,
      freeBytes,
    }));
    return latest;
  };
}

async function whyUnread(store: Store): Promise<UnavailableReason | undefined> {
  const { promise: late, resolve } = Promise.withResolvers<UnavailableReason>();
  const timer = setTimeout(resolve, PATIENCE, "away");
  const answer = store.calls.list({ limit: 1 }).then(
    () => undefined,
    (error) => StoreUnavailable.from(error)?.reason ?? "away",
  );
  const answered = await Promise.race([answer, late]);
  clearTimeout(timer);
  return answered;
}
