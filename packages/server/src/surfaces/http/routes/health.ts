import type { Store } from "../../../store/store.ts";
import { HttpError } from "../http-error.ts";
import type { HttpParts } from "../parts.ts";
import { defineRoute, type Route } from "../route.ts";

const status = (word: string) => ({
  type: "object",
  properties: { status: { const: word } },
  required: ["status"],
});

/** How long the store may take to show that it lives, and how long what it showed is believed. */
const PATIENCE = 2_000;
const BELIEVED = 1_000;

/** What load balancers ask. Open to anybody, so it says nothing else and asks the store once a second at most. */
export function healthRoutes({ store, stopping }: HttpParts): Route[] {
  const probe = storeProbe(store);
  return [
    defineRoute({
      method: "GET",
      path: "/healthz",
      id: "health",
      tag: "server",
      summary: "Whether the process lives",
      access: "open",
      responses: { 200: { description: "It does.", schema: status("ok") } },
      handle: () => ({ body: { status: "ok" } }),
    }),
    defineRoute({
      method: "GET",
      path: "/readyz",
      id: "ready",
      tag: "server",
      summary: "Whether the server takes work",
      access: "open",
      responses: { 200: { description: "It does.", schema: status("ready") } },
      errors: ["not_ready", "stopping"],
      async handle() {
        if (stopping()) throw new HttpError("stopping", "The server is stopping.");
        if (!(await probe())) throw new HttpError("not_ready", "The store does not answer.");
        return { body: { status: "ready" } };
      },
    }),
  ];
}

function storeProbe(store: Store): () => Promise<boolean> {
  let latest: Promise<boolean> | undefined;
  let askedAt = 0;
  return () => {
    const now = performance.now();
    if (latest !== undefined && now - askedAt < BELIEVED) return latest;
    askedAt = now;
    latest = answersInTime(store);
    return latest;
  };
}

async function answersInTime(store: Store): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(resolve, PATIENCE, false);
  });
  const answer = store.calls.list({ limit: 1 }).then(
    () => true,
    () => false,
  );
  const answered = await Promise.race([answer, late]);
  clearTimeout(timer);
  return answered;
}
