import { AsyncLocalStorage } from "node:async_hooks";
import {
  SSEClientTransport,
  StreamableHTTPClientTransport,
  type Transport,
} from "@modelcontextprotocol/client";
import type { ResolvedEntry } from "../config/resolve-entry.ts";
import type { RecentLines } from "../process/recent-lines.ts";
import type { Answering } from "./answering.ts";
import { boundedFetch, type Fetch, LONGEST_MESSAGE } from "./bounded-fetch.ts";
import { fetchWithRefusals } from "./http-refusal.ts";

/** The way to a server. */
export interface Line {
  readonly transport: Transport;
  /** Where the request is noted that a message belongs to, when each has an answer of its own. */
  readonly scope?: AsyncLocalStorage<Answering>;
  /** Undefined for a server that can always speak by itself. */
  readonly hearing?: Hearing;
}

/** Whether a server that is reached over HTTP gave us a stream on which it can speak by itself. */
export interface Hearing {
  isOpen: boolean;
}

/** The way to a server at an address. Nothing is sent there yet. */
export function openAddress(
  { url, headers }: ResolvedEntry & { readonly kind: "address" },
  kind: "http" | "sse",
  lines: RecentLines,
): Line & { readonly hearing: Hearing } {
  const requestInit = { headers: { ...headers } };
  const hearing = { isOpen: false };
  if (kind === "http") {
    const scope = new AsyncLocalStorage<Answering>();
    const refusing = fetchWithRefusals(boundedFetch(LONGEST_MESSAGE), { isSession: false, scope });
    const fetch = noting(refusing, hearing);
    return { transport: new StreamableHTTPClientTransport(url, { requestInit, fetch }), scope, hearing };
  }
  const bounded = boundedFetch(LONGEST_MESSAGE, ({ message }) => {
    lines.add("rack", message);
    void transport.close();
  });
  // There the stream is the session.
  const fetch = noting(fetchWithRefusals(bounded, { isSession: true }), hearing);
  const transport = new SSEClientTransport(url, { requestInit, fetch });
  return { transport, hearing };
}

function noting(fetch: Fetch, hearing: Hearing): Fetch {
  return async (input, init) => {
    const response = await fetch(input, init);
    // With an id, a stream is taken up again, mostly that of a request.
    if ((init?.method ?? "GET") === "GET" && !new Headers(init?.headers).has("last-event-id")) {
      const type = response.headers.get("content-type") ?? "";
      hearing.isOpen = response.ok && /^\s*text\/event-stream/i.test(type);
    }
    return response;
  };
}
