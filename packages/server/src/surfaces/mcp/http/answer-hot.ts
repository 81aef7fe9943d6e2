import { AsyncResource } from "node:async_hooks";
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import type { EndedCall } from "../../../calls/call-desk.ts";
import { whenGone } from "../../http/when-gone.ts";
import { cancellationsIn } from "../cancellations-in.ts";
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
import { accepts } from "./accepts.ts";
import { isUnderWay, type LegacySession } from "./legacy-sessions.ts";
import { sendNothing } from "./send-nothing.ts";

/** What becomes of a message on the short way. One of them is called, once. */
export interface HotEnds {
  answered(): void;
  /** The SDK is to answer it: with the call, when that has begun. Settles when that is done. */
  handOn(begun: Exchange<EndedCall> | undefined): Promise<void>;
  failed(thrown: unknown): void;
}

export interface HotPlace {
  readonly viewer: Viewer;
  readonly session: LegacySession | undefined;
  readonly incoming: IncomingMessage;
  readonly outgoing: ServerResponse;
}

/** Answers a message by the short way, now or later, when it is one for it. */
export function answerHot(hot: HotPath, body: unknown, place: HotPlace, ends: HotEnds): void {
  cancelHot(body, place.session);
  const request = readHotRequest(body);
  const era = request?.envelope === undefined ? "legacy" : "modern";
  if (request === undefined || !fits(request, era, place.incoming.headers)) void ends.handOn(undefined);
  // It is refused on the way to the SDK.
  else if (place.session !== undefined && isUnderWay(place.session, request.id)) void ends.handOn(undefined);
  else if (request.kind === "call") call(hot, request, era, place, ends);
  else list(hot, request, era, place, ends).catch(ends.failed);
}

async function list(hot: HotPath, request: HotList, era: Era, place: HotPlace, ends: HotEnds): Promise<void> {
  const bytes = await hot.list(request, era, place.viewer);
  if (bytes === undefined) {
    void ends.handOn(undefined);
    return;
  }
  sendResult(place, bytes, request.id);
  ends.answered();
}

function call(hot: HotPath, request: HotCall, era: Era, place: HotPlace, ends: HotEnds): void {
  const { viewer, session, incoming, outgoing } = place;
  const { abilities, clientName } = clientOf(request, session);
  // Only clients of the older versions have sessions, and set a level for all of one.
  const level = session?.server.logLevel;
  const exchange = hot.begin(request, viewer, {
    subject: request.params.name,
    abilities,
    clientName,
    wants: level === undefined ? wanted[era] : { progress: false, messages: true, level },
  });
  if (exchange === undefined) {
    void ends.handOn(undefined);
    return;
  }
  session?.calls.add(request.id, exchange);
  // In a session too: an answer that did not reach its client cannot be asked for again.
  const release = whenGone(incoming, outgoing, () => {
    session?.calls.delete(request.id, exchange);
    exchange.cancel("the client closed the connection");
  });
  const itself = new AsyncResource("toolrack.mcp");
  exchange.whenStirred(() => {
    try {
      if (session !== undefined && !session.calls.awaits(request.id, exchange)) {
        release();
        sendNothing(place);
        ends.answered();
        return;
      }
      const outcome = hot.outcome(exchange, request.id, era, viewer);
      release();
      if (outcome.kind === "begun") {
        // What stirred is in the middle of the tool's own work, which whatever the SDK does is no part of.
        const served = itself.runInAsyncScope(ends.handOn, undefined, exchange);
        // The SDK may be given it too late: until it has answered, the call still ends with its session by us.
        if (session !== undefined) void served.finally(() => forget(session, request, exchange));
        return;
      }
      if (session !== undefined) forget(session, request, exchange);
      send(place, outcome.text);
      ends.answered();
    } catch (thrown) {
      if (session !== undefined) forget(session, request, exchange);
      ends.failed(thrown);
    }
  });
}

function forget(session: LegacySession, { id }: HotCall, exchange: Exchange<EndedCall>): void {
  session.calls.delete(id, exchange);
  session.usedAt = Date.now();
}

/** An answer in one piece has no place for progress; in the older versions messages may be told of beside it. */
const wanted: Readonly<Record<Era, Wants>> = {
  legacy: { progress: false, messages: true },
  modern: { progress: false, messages: false },
};

/** The SDK knows nothing of calls that it was not given. */
function cancelHot(body: unknown, session: LegacySession | undefined): void {
  if (session === undefined || session.calls.size === 0) return;
  for (const { requestId, reason } of cancellationsIn(body)) {
    session.calls.cancel(requestId, reason ?? "the client cancelled it");
  }
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

function fits(request: HotRequest, era: Era, headers: IncomingHttpHeaders): boolean {
  return era === "modern" ? fitsModern(request, headers) : fitsLegacy(headers);
}

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
  // What nearly all clients send need not be taken apart.
  if (accept === USUAL_ACCEPT) return true;
  return accepts(accept, "application/json") && accepts(accept, "text/event-stream");
}

const USUAL_ACCEPT = "application/json, text/event-stream";

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
