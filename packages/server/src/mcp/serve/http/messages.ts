import { isAscii } from "node:buffer";
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import { MIMEType } from "node:util";
import { type ToolInfo, toDefinition } from "@toolrack/core";
import { whenGone } from "../../../http/wire/index.ts";
import { accepts } from "./mount.ts";
import { UnreadFrames } from "./sessions.ts";

interface Declared {
  /** As Node spells it. */
  readonly header: string;
  readonly path: readonly string[];
}

/** Keyed by the tool itself: a new version of it is another object. */
const known = new WeakMap<ToolInfo, readonly Declared[]>();

/** The arguments that a tool wants to be repeated in headers, by `x-mcp-header` in its schema. */
export function declaredHeaders(tool: ToolInfo): readonly Declared[] {
  let declared = known.get(tool);
  if (declared === undefined) {
    declared = find(toDefinition(tool).inputSchema, []);
    known.set(tool, declared);
  }
  return declared;
}

/** Says how headers and arguments disagree; whoever routes by the headers must be able to trust them. */
export function paramMismatch(
  tool: ToolInfo,
  args: unknown,
  headers: IncomingHttpHeaders,
): string | undefined {
  for (const { header, path } of declaredHeaders(tool)) {
    const value = path.reduce<unknown>(
      (at, key) => (at as Record<string, unknown> | null | undefined)?.[key],
      args,
    );
    if (typeof value !== "string" && typeof value !== "number" && typeof value !== "boolean") continue;
    const sent = headers[header];
    if (typeof sent !== "string")
      return `${path.join(".")} is in the body, but there is no header ${header}.`;
    const said = decode(sent.trim());
    if (said === undefined) return `The header ${header} is not base64 of text in UTF-8.`;
    const isSame = typeof value === "number" ? Number(said) === value && said !== "" : said === String(value);
    if (!isSame) return `The header ${header} and ${path.join(".")} in the body differ.`;
  }
  return undefined;
}

function find(schema: unknown, path: readonly string[]): Declared[] {
  if (typeof schema !== "object" || schema === null) return [];
  const { properties, "x-mcp-header": name } = schema as { properties?: object; "x-mcp-header"?: unknown };
  const own =
    typeof name === "string" && path.length > 0 ? [{ header: `mcp-param-${name.toLowerCase()}`, path }] : [];
  const below = Object.entries(properties ?? {}).flatMap(([key, part]) => find(part, [...path, key]));
  return [...own, ...below];
}

const wrapped = /^=\?base64\?(.*)\?=$/;
const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** What a header cannot carry is wrapped in base64. Undefined when that is broken. */
function decode(value: string): string | undefined {
  const inner = wrapped.exec(value)?.[1];
  if (inner === undefined) return value;
  if (!base64.test(inner)) return undefined;
  try {
    return decoder.decode(Buffer.from(inner, "base64"));
  } catch {
    return undefined;
  }
}

type ReadMessage =
  | { readonly ok: true; readonly text: string }
  | {
      readonly ok: false;
      readonly status: number;
      readonly code: number;
      readonly message: string;
      readonly headers?: Readonly<Record<string, string>>;
    };

const decoder = new TextDecoder("utf-8", { fatal: true });

/** The text of a request's body. Counts while it reads and never holds more than `limit` bytes. */
export function readMessage(incoming: IncomingMessage, limit: number): Promise<ReadMessage> {
  return new Promise((resolve) => {
    // The first outcome counts, so that nobody has to stop listening: the request is gone with its answer.
    let chunks: Buffer[] = [];
    let size = 0;
    // Who has gone before anybody listened says nothing any more.
    if (incoming.destroyed) return resolve(broken);
    // A connection that breaks is an error of the request.
    incoming.on("error", () => resolve(broken));
    const refusal = refusalOf(incoming, limit);
    if (refusal !== undefined) {
      // What is left of a body that nobody reads is let through, so that the answer reaches who still sends.
      incoming.resume();
      return resolve(refusal);
    }
    incoming.on("data", (chunk: Buffer) => {
      size += chunk.length;
      if (size <= limit) {
        chunks.push(chunk);
        return;
      }
      chunks = [];
      resolve(tooLarge(limit));
    });
    incoming.on("end", () => {
      if (size <= limit) resolve(decoded(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, size)));
    });
  });
}

/** What is wrong with a body can often be told before it comes. */
function refusalOf({ headers }: IncomingMessage, limit: number): ReadMessage | undefined {
  const encoding = headers["content-encoding"];
  if (encoding !== undefined && encoding.toLowerCase() !== "identity") return encoded(encoding);
  const charset = charsetOf(headers["content-type"]);
  if (charset !== undefined && !UTF8.test(charset)) return otherCharset(charset);
  return exceeds(headers["content-length"], limit) ? tooLarge(limit) : undefined;
}

const UTF8 = /^utf-?8$/i;

/** Undefined where none is named: then JSON is UTF-8. */
function charsetOf(type: string | undefined): string | undefined {
  if (type === undefined || type === "application/json") return undefined;
  try {
    return new MIMEType(type).params.get("charset")?.trim();
  } catch {
    return undefined; // What is no media type at all is refused as such.
  }
}

/** Who may send anything may send a kilobyte: short numbers need not be read. What is sent is counted too. */
function exceeds(length: string | undefined, limit: number): boolean {
  return length !== undefined && length.length > 3 && Number(length) > limit;
}

function decoded(bytes: Buffer): ReadMessage {
  // Most messages are, and then the bytes are the characters.
  if (isAscii(bytes)) return { ok: true, text: bytes.toString("latin1") };
  try {
    return { ok: true, text: decoder.decode(bytes) };
  } catch {
    return { ok: false, status: 400, code: -32700, message: "The body is not text in UTF-8." };
  }
}

const broken: ReadMessage = {
  ok: false,
  status: 400,
  code: -32700,
  message: "The connection broke before the whole body had come.",
};

function encoded(encoding: string): ReadMessage {
  return {
    ok: false,
    status: 415,
    code: -32600,
    message: `The body came with Content-Encoding: ${encoding}, which this server does not read. Send it as it is, without that header.`,
    headers: { "Accept-Encoding": "identity" },
  };
}

function otherCharset(charset: string): ReadMessage {
  return {
    ok: false,
    status: 415,
    code: -32600,
    message: `The body came with charset=${charset.slice(0, LONGEST_SHOWN)}, and messages are read as UTF-8 alone. Send it in UTF-8.`,
  };
}

/** Of what a client has named. */
const LONGEST_SHOWN = 100;

function tooLarge(limit: number): ReadMessage {
  return {
    ok: false,
    status: 413,
    code: -32600,
    message: `The body is larger than ${limit} bytes, the most that this server takes.`,
  };
}

/** The request as the SDK takes it. Its body was read before; the signal aborts when the caller goes away. */
export function toWebRequest(incoming: IncomingMessage, outgoing: ServerResponse): Request {
  const gone = new AbortController();
  const stop = whenGone(incoming, outgoing, () => gone.abort("the client closed the connection"));
  outgoing.once("close", stop);
  const headers = new Headers();
  for (const [name, value] of Object.entries(incoming.headers)) {
    if (value !== undefined) headers.set(name, Array.isArray(value) ? value.join(", ") : value);
  }
  const { accept } = incoming.headers;
  // The SDK looks for the two names alone, wherever in the header they stand.
  if (accept !== undefined) headers.set("accept", ANSWERS.filter((type) => accepts(accept, type)).join(", "));
  const { method = "GET", url = "/" } = incoming;
  return new Request(new URL(url, "http://localhost"), { method, headers, signal: gone.signal });
}

/** In which an answer comes, as one message or as a stream. */
const ANSWERS = ["application/json", "text/event-stream"];

/** Is given how to end a stream, and answers how to forget about it. */
export type StreamWatch = (end: () => void) => () => void;

export interface StreamOptions {
  readonly watch?: StreamWatch | undefined;
  /** Messages that come before those of the stream. */
  readonly first?: readonly object[] | undefined;
  /** Hears why a stream was cut off that its client does not read. */
  readonly cutOff?: ((reason: string) => void) | undefined;
  readonly limits?: UnreadLimits | undefined;
}

/** How much a client may leave unread before it is cut off. */
interface UnreadLimits {
  /** In bytes, beside the last message. */
  readonly most: number;
  /** How long it may take nothing at all, in milliseconds. */
  readonly patience: number;
}

const usualUnreadLimits: UnreadLimits = { most: 16 * 1024 * 1024, patience: 5 * 60_000 };

/** Sends what the SDK answered; a stream goes on until either side ends it, or who watches it. */
export async function sendWebResponse(
  response: Response,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  options: StreamOptions = {},
): Promise<void> {
  for (const [name, value] of response.headers) {
    // Node decides by itself how the connection goes on.
    if (name !== "connection") outgoing.setHeader(name, value);
  }
  outgoing.statusCode = response.status;
  const type = response.headers.get("content-type") ?? "";
  if (response.body === null || !type.includes("text/event-stream")) {
    const bytes = Buffer.from(await response.arrayBuffer());
    outgoing.setHeader("Content-Length", bytes.length);
    outgoing.end(bytes);
    return;
  }
  await sendStream(response.body, incoming, outgoing, options);
}

/**
 * The SDK puts into its stream whatever it is told, read or not. So all of it is taken out at once, and kept where it is
 * known how much of it there is.
 */
async function sendStream(
  body: ReadableStream<Uint8Array>,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  { watch, first = [], cutOff = () => {}, limits = usualUnreadLimits }: StreamOptions,
): Promise<void> {
  outgoing.flushHeaders();
  for (const message of first) outgoing.write(`event: message\ndata: ${JSON.stringify(message)}\n\n`);
  const reader = body.getReader();
  // A stream has nobody left to go to once its reader has closed its side.
  const end = () => void reader.cancel().catch(() => {});
  const release = whenGone(incoming, outgoing, end);
  const unwatch = watch?.(end);
  const unread = new UnreadFrames();
  const writeUnread = () => {
    for (const frame of unread.take()) outgoing.write(frame);
  };
  const giveUp = (reason: string) => {
    cutOff(reason);
    unread.take();
    end();
    outgoing.destroy();
  };
  outgoing.on("drain", writeUnread);
  // Not a limit of the stream: what its client takes in counts, and so does what it is told in time.
  outgoing.setTimeout(limits.patience, () => {
    if (outgoing.writableLength > 0) giveUp(`it took nothing for ${limits.patience / 1000} seconds`);
  });
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      const left = outgoing.writableLength + unread.size;
      if (left > limits.most) {
        giveUp(`it left ${left} bytes unread`);
        break;
      }
      if (outgoing.writableNeedDrain) unread.add(value);
      else outgoing.write(value);
    }
  } finally {
    release();
    unwatch?.();
    outgoing.off("drain", writeUnread);
    writeUnread();
    outgoing.end();
  }
}
