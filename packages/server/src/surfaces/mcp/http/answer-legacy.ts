import type { IncomingMessage, ServerResponse } from "node:http";
import type { AuthInfo, LegacyHttpHandler } from "@modelcontextprotocol/server";
import type { EndedCall } from "../../../calls/call-desk.ts";
import type { Exchange } from "../exchange.ts";
import { requestIdOf } from "../request-id-of.ts";
import { reusedId } from "../reused-id.ts";
import { batchTooLong, mostInBatch, siftBatch } from "../sift-batch.ts";
import { isUnderWay, type LegacySession } from "./legacy-sessions.ts";
import { sendJson } from "./send-json.ts";
import { sendJsonRpcError } from "./send-json-rpc-error.ts";
import { sendNothing } from "./send-nothing.ts";
import { sendWebResponse } from "./web-exchange.ts";

export interface LegacyPlace {
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
