import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import type { EndedCall } from "../../../calls/call-desk.ts";
import type { ClientAbilities } from "../client-abilities.ts";
import type { Exchange, Wants } from "../exchange.ts";
import type { Era, HotPath } from "../hot/hot-path.ts";
import {
  type HotCall,
  type HotList,
  type HotRequest,
  modernVersion,
  readHotRequest,
} from "../hot/hot-request.ts";
import type { Viewer } from "../viewer.ts";
import type { LegacySession } from "./legacy-sessions.ts";
import { whenGone } from "./when-gone.ts";

/** `begun`: the call runs, and the SDK is to go on with it. */
export type HotAnswer =
  | { readonly kind: "answered" }
  | { readonly kind: "begun"; readonly exchange: Exchange<EndedCall> };

export interface HotPlace {
  readonly viewer: Viewer;
  readonly session: LegacySession | undefined;
  readonly incoming: IncomingMessage;
  readonly outgoing: ServerResponse;
}

/** Answers a message by the short way. Undefined when it is not one for it. */
export function answerHot(
  hot: HotPath,
  body: unknown,
  place: HotPlace,
): Promise<HotAnswer | undefined> | undefined {
  cancelHot(body, place.session);
  const request = readHotRequest(body);
  if (request === undefined) return undefined;
  const { headers } = place.incoming;
  const era = request.envelope === undefined ? "legacy" : "modern";
  if (!(era === "modern" ? fitsModern(request, headers) : fitsLegacy(headers))) return undefined;
  return request.kind === "call" ? call(hot, request, era, place) : list(hot, request, era, place);
}

async function list(
  hot: HotPath,
  request: HotList,
  era: Era,
  place: HotPlace,
): Promise<HotAnswer | undefined> {
  const bytes = await hot.list(request, era, place.viewer);
  if (bytes === undefined) return undefined;
  sendResult(place, bytes, request.id);
  return { kind: "answered" };
}

async function call(
  hot: HotPath,
  request: HotCall,
  era: Era,
  place: HotPlace,
): Promise<HotAnswer | undefined> {
  const { viewer, session, incoming, outgoing } = place;
  const { abilities, clientName } = clientOf(request, session);
  const exchange = hot.begin(request, viewer, {
    subject: request.params.name,
    abilities,
    clientName,
    wants: wanted[era],
  });
  if (exchange === undefined) return undefined;
  // In a session the client may come for other things; there it cancels with a message.
  const release =
    session === undefined
      ? whenGone(incoming, outgoing, () => exchange.cancel("the client closed the connection"))
      : undefined;
  session?.calls.set(request.id, exchange);
  await exchange.stirred();
  const outcome = hot.outcome(exchange, request.id, era, viewer);
  release?.();
  session?.calls.delete(request.id);
  if (outcome.kind === "begun") return outcome;
  send(place, outcome.text);
  return { kind: "answered" };
}

/** An answer in one piece has no place for progress; in the older versions messages may be told of beside it. */
const wanted: Readonly<Record<Era, Wants>> = {
  legacy: { progress: false, messages: true },
  modern: { progress: false, messages: false },
};

/** The SDK knows nothing of calls that it was not given. */
function cancelHot(body: unknown, session: LegacySession | undefined): void {
  if (session === undefined || session.calls.size === 0) return;
  const { method, params } = body as { method?: unknown; params?: { requestId?: unknown; reason?: unknown } };
  if (method !== "notifications/cancelled") return;
  const exchange = session.calls.get(params?.requestId as string | number); // Any other kind of id is not in it.
  exchange?.cancel(typeof params?.reason === "string" ? params.reason : "the client cancelled it");
}

function clientOf({ envelope }: HotCall, session: LegacySession | undefined): Envelope {
  if (envelope !== undefined) return envelope;
  if (session === undefined) return nobodyKnown;
  const info = session.server.getClientVersion();
  return {
    abilities: session.server.getClientCapabilities() ?? {},
    clientName: info === undefined ? "" : `${info.name} ${info.version}`,
  };
}

interface Envelope {
  readonly abilities: ClientAbilities;
  readonly clientName: string;
}

const nobodyKnown: Envelope = Object.freeze({ abilities: Object.freeze({}), clientName: "" });

/** The headers that the newer version wants, each exactly as the body has it. */
function fitsModern(request: HotRequest, headers: IncomingHttpHeaders): boolean {
  return (
    headers["content-type"] === "application/json" &&
    headers["mcp-protocol-version"] === modernVersion &&
    (request.kind === "list"
      ? headers["mcp-method"] === "tools/list"
      : headers["mcp-method"] === "tools/call" && headers["mcp-name"] === request.params.name) &&
    acceptsBoth(headers)
  );
}

const legacyVersions: ReadonlySet<unknown> = new Set([
  undefined,
  "2025-11-25",
  "2025-06-18",
  "2025-03-26",
  "2024-11-05",
]);

function fitsLegacy(headers: IncomingHttpHeaders): boolean {
  return (
    headers["content-type"] === "application/json" &&
    legacyVersions.has(headers["mcp-protocol-version"]) &&
    acceptsBoth(headers)
  );
}

function acceptsBoth({ accept = "" }: IncomingHttpHeaders): boolean {
  return accept.includes("application/json") && accept.includes("text/event-stream");
}

const start = Buffer.from('{"result":');

function sendResult(place: HotPlace, result: Buffer, id: string | number): void {
  const { outgoing } = place;
  const end = `,"jsonrpc":"2.0","id":${JSON.stringify(id)}}`;
  writeHead(place, start.length + result.length + Buffer.byteLength(end));
  outgoing.cork();
  outgoing.write(start);
  outgoing.write(result);
  outgoing.end(end);
  outgoing.uncork();
}

function send(place: HotPlace, text: string): void {
  writeHead(place, Buffer.byteLength(text));
  place.outgoing.end(text);
}

function writeHead({ outgoing, session }: HotPlace, length: number): void {
  const headers = ["Content-Type", "application/json", "Content-Length", String(length)];
  if (session !== undefined) headers.push("mcp-session-id", session.id);
  outgoing.writeHead(200, headers);
}
