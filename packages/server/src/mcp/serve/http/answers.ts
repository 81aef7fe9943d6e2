import { AsyncResource } from "node:async_hooks";
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import type { AuthInfo, LegacyHttpHandler } from "@modelcontextprotocol/server";
import type { EndedCall } from "../../../calls/index.ts";
import { whenGone } from "../../../http/wire/index.ts";
import type { Era } from "../../wire/index.ts";
import { Outlet } from "../carry.ts";
import type { ClientAbilities } from "../clients.ts";
import type { Exchange, Wants } from "../exchange.ts";
import {
  type HotCall,
  type HotList,
  type HotPath,
  type HotRequest,
  modernVersion,
  readHotRequest,
} from "../hot.ts";
import type { Viewer } from "../lists.ts";
import { batchTooLong, cancellationsIn, mostInBatch, requestIdOf, reusedId, siftBatch } from "../messages.ts";
import { sendWebResponse } from "./messages.ts";
import { accepts } from "./mount.ts";
import { isUnderWay, type LegacySession } from "./sessions.ts";

/** What becomes of a message on the short way. One of them is called, once. */
interface HotEnds {
  answered(): void;
  /** The SDK is to answer it: with the call, when that has begun. Settles when that is done. */
  handOn(begun: Exchange<EndedCall> | undefined): Promise<void>;
  failed(thrown: unknown): void;
}

interface HotPlace {
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

interface LegacyPlace {
  readonly request: Request;
  readonly incoming: IncomingMessage;
  readonly outgoing: ServerResponse;
  /** Without one each request stands for itself, whatever its id. */
  readonly session: LegacySession | undefined;
  readonly stateless: LegacyHttpHandler;
  readonly authInfo: AuthInfo;
  /** Hears why a stream was cut off. */
  readonly cutOff: (reason: string) => void;
}

/**
 * Lets the SDK answer what a client of the older versions sent. Says whether it did: a call that was begun before, and
 * that nobody has taken over, has to be ended.
 */
export async function answerLegacy(
  place: LegacyPlace,
  body: unknown,
  begun: Exchange<EndedCall> | undefined,
): Promise<boolean> {
  if (Array.isArray(body) && body.length > 0) return answerBatch(place, body);
  const { session, incoming, outgoing, cutOff } = place;
  const id = requestIdOf(body);
  if (session !== undefined && id !== undefined) {
    if (begun === undefined && isUnderWay(session, id)) {
      const { code, message } = reusedId(id);
      sendJsonRpcError(outgoing, 400, code, message, { id });
      return false;
    }
    if (begun !== undefined && !session.calls.awaits(id, begun)) {
      sendNothing(place);
      return false;
    }
  }
  const response = await handIn(place, body);
  await sendWebResponse(response, incoming, outgoing, { cutOff });
  return response.ok;
}

async function answerBatch(place: LegacyPlace, batch: readonly unknown[]): Promise<boolean> {
  const { session, incoming, outgoing, cutOff } = place;
  if (batch.length > mostInBatch) {
    sendJsonRpcError(outgoing, 400, -32600, batchTooLong(batch.length));
    return false;
  }
  const isTaken = (id: string | number) => session !== undefined && isUnderWay(session, id);
  const { messages, hasRequests, reused } = siftBatch(batch, isTaken);
  const refusals = reused.map((id) => ({ jsonrpc: "2.0", error: reusedId(id), id }));
  const response = messages.length === 0 ? undefined : await handIn(place, messages);
  if (response !== undefined && (hasRequests || refusals.length === 0 || !response.ok)) {
    await sendWebResponse(response, incoming, outgoing, { first: refusals, cutOff });
    return response.ok;
  }
  if (refusals.length > 0) sendJson(outgoing, 400, refusals);
  else sendNothing(place);
  return true;
}

async function handIn(place: LegacyPlace, body: unknown): Promise<Response> {
  const { request, session, stateless, authInfo } = place;
  if (session === undefined) return stateless(request, { parsedBody: body, authInfo });
  keepBusy(session, place.outgoing);
  return session.transport.handleRequest(request, { parsedBody: body, authInfo });
}

/** A session is busy as long as somebody is being answered in it. */
export function keepBusy(session: LegacySession, outgoing: ServerResponse): void {
  // Who has gone says so only once.
  if (outgoing.closed) return;
  session.busy++;
  outgoing.once("close", () => {
    session.busy--;
    session.usedAt = Date.now();
  });
}

function sendJson(
  outgoing: ServerResponse,
  status: number,
  value: object,
  headers: Readonly<Record<string, string>> = {},
): void {
  const body = JSON.stringify(value);
  outgoing.writeHead(status, {
    "Content-Type": "application/json",
    "Content-Length": Buffer.byteLength(body),
    ...headers,
  });
  outgoing.end(body);
}

/** An answer to a request that reached no server. */
export function sendJsonRpcError(
  outgoing: ServerResponse,
  status: number,
  code: number,
  message: string,
  {
    id = null,
    headers = {},
  }: { readonly id?: string | number | null; readonly headers?: Readonly<Record<string, string>> } = {},
): void {
  sendJson(outgoing, status, { jsonrpc: "2.0", error: { code, message }, id }, headers);
}

/** What was cancelled gets no answer: its stream ends with nothing in it, as one ends that the SDK had made. */
function sendNothing({
  outgoing,
  session,
}: {
  readonly outgoing: ServerResponse;
  readonly session: LegacySession | undefined;
}): void {
  const headers = ["Content-Type", "text/event-stream", "Cache-Control", "no-cache, no-transform"];
  if (session !== undefined) headers.push("mcp-session-id", session.id);
  outgoing.writeHead(200, headers);
  outgoing.end();
}

/** The way out by which a request is answered with a stream. */
export function outletOf(outgoing: ServerResponse): Outlet {
  const outlet = new Outlet(() => outgoing.writableNeedDrain);
  const freed = () => outlet.freed();
  outgoing.on("drain", freed).on("close", freed);
  return outlet;
}
