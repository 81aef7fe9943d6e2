import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { JsonSchemaObject, Logger } from "@toolrack/core";
import { redact, tooMuchJson } from "@toolrack/core/internal";
import { reasonOf } from "../../helpers/index.ts";
import { HttpError } from "./errors.ts";

const decoder = new TextDecoder("utf-8", { fatal: true });

/** Reads the JSON body of a request; `undefined` when there is none. Never holds more than `limit` bytes. */
export async function readBody(incoming: IncomingMessage, limit: number): Promise<unknown> {
  const { headers } = incoming;
  const hasBody =
    headers["transfer-encoding"] !== undefined || (headers["content-length"] ?? "0").trim() !== "0";
  if (!hasBody) return undefined;
  if (headers["content-type"] !== "application/json" || headers["content-encoding"] !== undefined)
    checkType(incoming);
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  let chunks: Buffer[] = [];
  let isSettled = false;
  let size = Number(headers["content-length"] ?? 0) > limit ? limit + 1 : 0;
  // Later events call it again. To remove its listeners took 0.8 µs of a call over one connection.
  const settle = () => {
    if (isSettled) return;
    isSettled = true;
    if (size > limit) {
      const advice = `The body is larger than ${limit} bytes, the most that this server takes.`;
      reject(new HttpError("payload_too_large", advice, { details: { limit } }));
    } else if (!incoming.complete) {
      reject(new HttpError("bad_request", "The connection broke before the whole body had come."));
    } else resolve(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, size));
    chunks = [];
  };
  const onData = (chunk: Buffer) => {
    size += chunk.length;
    // The rest of the body is read and dropped, so that the answer reaches a client that is still sending.
    if (size > limit) settle();
    else chunks.push(chunk);
  };
  // A client that disconnected earlier causes no more events.
  if (incoming.destroyed || size > limit) settle();
  else incoming.on("data", onData).on("end", settle).on("close", settle);
  incoming.on("error", settle);
  const bytes = await promise;
  if (bytes.length === 0) return undefined;
  try {
    const text = decoder.decode(bytes);
    const excess = tooMuchJson(text);
    if (excess !== undefined)
      throw new HttpError("invalid_request", `The body has ${excess}. Send it in several parts.`);
    return JSON.parse(text);
  } catch (thrown) {
    if (thrown instanceof HttpError) throw thrown;
    const problem = reasonOf(thrown);
    throw new HttpError("invalid_json", `The body is not JSON in UTF-8: ${problem}.`);
  }
}

function checkType({ headers }: IncomingMessage): void {
  const type = (headers["content-type"] ?? "").split(";")[0]!.trim().toLowerCase();
  if (type !== "application/json" && !/^application\/[\w.-]+\+json$/.test(type)) {
    const came = type === "" ? "none is given" : `it is ${type}`;
    throw new HttpError("unsupported_media_type", `Content-Type must be application/json; ${came}.`);
  }
  const encoding = headers["content-encoding"] ?? "identity";
  if (encoding.toLowerCase() !== "identity") {
    const advice = `The body came with Content-Encoding: ${encoding}, which this server does not read. Send it as it is, without that header.`;
    throw new HttpError("unsupported_media_type", advice, { headers: { "Accept-Encoding": "identity" } });
  }
}

/**
 * The query of a URL as an object. Values become numbers and booleans where the schemas ask for them. Values that
 * cannot be converted stay text, and the validation reports them.
 */
export function readQuery(
  search: string,
  schemas: Readonly<Record<string, JsonSchemaObject>>,
): Record<string, unknown> {
  const query: Record<string, unknown> = Object.create(null);
  for (const [name, text] of new URLSearchParams(search)) {
    // A repeated parameter becomes a list, which no schema accepts, so the validation reports it.
    query[name] = name in query ? [query[name], text].flat() : convert(text, schemas[name]?.type);
  }
  return { ...query };
}

function convert(text: string, type: unknown): unknown {
  if (type === "boolean" && (text === "true" || text === "false")) return text === "true";
  if ((type === "integer" || type === "number") && /^-?\d+(\.\d+)?$/.test(text)) return Number(text);
  return text;
}

/** JSON of any value. If a tool's result cannot be written as JSON, a plain copy is used. */
export function jsonText(value: unknown): string {
  try {
    return JSON.stringify(value) ?? "null";
  } catch {
    return JSON.stringify(redact(value)) ?? "null";
  }
}

export const json = "application/json; charset=utf-8";

/** Writes directly to Node's response; a `Response` object would only add work. */
export function sendText(
  outgoing: ServerResponse,
  status: number,
  text: string,
  headers: Readonly<Record<string, string>>,
): void {
  // A list of names and values costs Node less than an object of them.
  const own = Object.entries(headers).flat();
  outgoing.writeHead(status, [...own, "Content-Length", String(Buffer.byteLength(text))]);
  outgoing.end(text);
}

/** The objects that count and log requests that were refused or failed. */
interface ErrorListeners {
  readonly metrics: { countRequest(method: string, route: string, status: number): void };
  readonly logger: Logger;
}

/** The one place that turns a thrown error into an answer. */
export function sendError(
  thrown: unknown,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  { metrics, logger }: ErrorListeners,
  route: string,
): void {
  const id = setRequestId(outgoing);
  const error = HttpError.from(thrown) ?? hideFailure(thrown, logger, id);
  // The store itself logs an unreachable database once. Other store failures are logged only here.
  if (error.code === "store_unavailable" && error.details.reason !== "away")
    logger.error("A request failed:", thrown);
  metrics.countRequest(incoming.method ?? "", route, error.status);
  if (outgoing.headersSent) {
    // A stream that has begun cannot change its status; its reader only notices a broken connection.
    outgoing.destroy();
    return;
  }
  const headers = { "Content-Type": json, ...error.headers };
  sendText(outgoing, error.status, jsonText(error.toEnvelope()), headers);
}

/** The id under which a person can report the request; `GuardedResponse` sends it. Made at first use. */
type Identified = ServerResponse & { requestId?: string };

/** Gives the answer an id in a header, as every error has one. OpenAI's clients show it as `_request_id`. */
export function setRequestId(outgoing: Identified): string {
  outgoing.requestId ??= `req_${randomUUID()}`;
  return outgoing.requestId;
}

/** Details of an internal failure go to the log, not to the caller. */
function hideFailure(thrown: unknown, logger: Logger, id: string): HttpError {
  logger.error(`A request failed (${id}):`, thrown);
  return new HttpError("internal_error", "The server failed to answer this request. Its log says why.");
}

/** The `signal` aborts when the caller disconnects. Call `release` once the answer is being sent. */
export function callerGone(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
): { readonly signal: AbortSignal; release(): void } {
  const controller = new AbortController();
  const release = whenGone(incoming, outgoing, () => controller.abort("the caller closed the connection"));
  return { signal: controller.signal, release };
}

/**
 * Does work that is wanted only as long as its caller waits for it. Resolves with undefined when the caller has gone and
 * the work was given up for that.
 */
export async function whileAwaited<Result>(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  work: (signal: AbortSignal) => Promise<Result>,
): Promise<Result | undefined> {
  const { signal, release } = callerGone(incoming, outgoing);
  try {
    return await work(signal);
  } catch (thrown) {
    if (signal.aborted && thrown === signal.reason) return undefined;
    throw thrown;
  } finally {
    release();
  }
}

/**
 * Calls `act` when the client closes the connection, or only its sending side, before the answer is sent; a
 * killed program closes only its side. Returns a function that stops it.
 */
export function whenGone(incoming: IncomingMessage, outgoing: ServerResponse, act: () => void): () => void {
  const { socket } = incoming;
  const onClose = () => {
    if (!outgoing.writableFinished) act();
  };
  if (socket.readableEnded || socket.destroyed) act();
  // Pipelined requests share the connection, and each adds its own listener.
  if (socket.getMaxListeners() > 0) socket.setMaxListeners(0);
  socket.on("end", act);
  outgoing.on("close", onClose);
  return () => {
    socket.off("end", act);
    outgoing.off("close", onClose);
  };
}

/** The server's origin as its caller sees it; the host was checked before. */
export function originOf({ headers, socket }: IncomingMessage): string {
  const isSecure = "encrypted" in socket || headers["x-forwarded-proto"] === "https";
  return `${isSecure ? "https" : "http"}://${headers.host ?? "localhost"}`;
}

/** Whether the caller asks for the answer as an event stream. */
export function acceptsStream({ headers }: IncomingMessage): boolean {
  return /\btext\/event-stream\b/i.test(headers.accept ?? "");
}

export function openEventStream(outgoing: ServerResponse): void {
  // The header X-Accel-Buffering stops proxies from buffering the stream.
  // A list of names and values costs Node less than an object of them.
  outgoing.writeHead(200, ["Content-Type", "text/event-stream; charset=utf-8", "X-Accel-Buffering", "no"]);
  outgoing.flushHeaders();
}

/** One event in stream format. JSON holds no line breaks, so the data is one line. */
export function eventText(event: string, data: unknown, id?: string): string {
  const named = id === undefined ? "" : `id: ${id}\n`;
  return `${named}event: ${event}\ndata: ${jsonText(data)}\n\n`;
}

/** Throws for a HEAD request, which event streams do not support. */
export function refuseHead({ method }: IncomingMessage): void {
  if (method !== "HEAD") return;
  throw new HttpError("method_not_allowed", "A stream has no HEAD.", { headers: { Allow: "GET" } });
}
