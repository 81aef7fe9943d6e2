import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import type { ToolInfo } from "@toolrack/core";
import { toDefinition } from "@toolrack/core/format";
import { asRecord, isRecord } from "../../helpers/index.ts";
import { HttpError } from "../../http/wire/index.ts";
import {
  decodeHeader,
  type Envelope,
  errorText,
  type HeaderParameter,
  headerParameters,
  legacyVersions,
  metaKeys,
  modernVersion,
  RpcError,
  type RpcId,
  type RpcMessage,
  type RpcNotification,
  type RpcParams,
  type RpcRequest,
  readEnvelope,
  readRpc,
  repeatedValue,
  rpcCodes,
  unsupportedVersion,
} from "../wire/index.ts";
import { batchProblem } from "./batch.ts";
import type { HeaderList } from "./http-reply.ts";

/** For each method that needs the header Mcp-Name: the parameter whose value the header repeats. */
const nameSources: ReadonlyMap<string, string> = new Map([
  ["tools/call", "name"],
  ["prompts/get", "name"],
  ["resources/read", "uri"],
  ["tasks/get", "taskId"],
  ["tasks/update", "taskId"],
  ["tasks/cancel", "taskId"],
]);

/**
 * The envelope of a message of the modern era; undefined for the legacy era. Throws an `RpcError` when the headers and
 * the body disagree, because proxies that route by the headers must be able to trust them.
 */
export function readModern(
  { method, params, meta, kind }: RpcRequest | RpcNotification,
  headers: IncomingHttpHeaders,
): Envelope | undefined {
  const version = headers["mcp-protocol-version"]?.toString();
  if (meta[metaKeys.version] === undefined) {
    if (version === undefined || version < modernVersion) return undefined;
    if (kind === "notification") return { version, abilities: {}, client: undefined, logLevel: undefined };
    const text =
      "an initialize request (legacy handshake) was sent with a modern MCP-Protocol-Version header";
    throw method === "initialize" ? mismatch(version, text) : withoutEnvelope(version, params);
  }
  const isRequest = kind === "request";
  const envelope = readEnvelope(isRequest ? meta : { [metaKeys.capabilities]: {}, ...meta });
  const isModern = envelope.version === modernVersion;
  const isRequired = isRequest && isModern;
  if (version !== envelope.version && (version !== undefined || isRequired))
    requireHeader("MCP-Protocol-Version", version, metaKeys.version, envelope.version);
  const named = headers["mcp-method"];
  if (named !== method && (named !== undefined || isRequired))
    requireHeader("Mcp-Method", named, "method", method);
  if (!isModern) throw unsupportedVersion(envelope.version);
  const source = isRequest ? nameSources.get(method) : undefined;
  const name = source === undefined ? undefined : params[source];
  if (typeof name === "string" && name !== headers["mcp-name"])
    requireHeader("Mcp-Name", headers["mcp-name"], `params.${source}`, name);
  return envelope;
}

function withoutEnvelope(version: string, { _meta: meta }: RpcParams): RpcError {
  const needed = [metaKeys.version, metaKeys.capabilities].filter((key) => !isRecord(meta) || !(key in meta));
  const missing = isRecord(meta) ? needed : ["_meta"];
  const message = `Invalid params: the MCP-Protocol-Version header names protocol revision ${version}, but the request is missing the required per-request envelope key(s): ${missing.join(", ")}`;
  return new RpcError(rpcCodes.invalidParams, message, { envelope: { missing } });
}

/** Throws an `RpcError` unless the header has the same value as this member of the body. */
function requireHeader(
  header: string,
  given: string | readonly string[] | undefined,
  member: string,
  value: string | number | boolean,
): void {
  const sent = given?.toString();
  const decoded = sent === undefined ? undefined : decodeHeader(sent);
  const isSame =
    typeof value === "number" ? decoded !== "" && Number(decoded) === value : decoded === String(value);
  if (isSame) return;
  const problem = sent === undefined ? "is absent" : "is not base64 of text in UTF-8";
  const how = decoded === undefined ? problem : `says ${JSON.stringify(decoded)}`;
  throw mismatch(sent, `the body has ${member} ${JSON.stringify(value)}, but the header ${header} ${how}`);
}

function mismatch(sent: string | undefined, body: string): RpcError {
  const header = sent ?? "(missing)";
  const message = `Bad Request: the request headers and body disagree: ${body}`;
  return new RpcError(rpcCodes.headerMismatch, message, { mismatch: { header, body } });
}

/**
 * For each tool, the arguments that a client must repeat in headers. A new version of a tool is another
 * object, so an entry never goes out of date.
 */
const declaredBy = new WeakMap<ToolInfo, readonly HeaderParameter[]>();

/** Throws an `RpcError` when the arguments of a call and the headers that its tool declares in its schema disagree. */
export function checkParamHeaders(tool: ToolInfo, args: unknown, headers: IncomingHttpHeaders): void {
  let declared = declaredBy.get(tool);
  if (declared === undefined) {
    declared = headerParameters(asRecord(toDefinition(tool).inputSchema));
    declaredBy.set(tool, declared);
  }
  for (const parameter of declared) {
    const { name, path } = parameter;
    const value = repeatedValue(parameter, args);
    if (name !== undefined && value !== undefined) requireHeader(name, headers[name], path.join("."), value);
  }
}

export function checkLegacy(incoming: IncomingMessage): void {
  checkAccept(incoming);
  checkVersion(incoming);
}

/** Throws unless the client accepts both a JSON message and an event stream, as the legacy era demands. */
export function checkAccept({ headers: { accept = "" } }: IncomingMessage): void {
  // Nearly all clients send exactly this header, so it is compared before it is parsed.
  if (accept === "application/json, text/event-stream") return;
  if (accepts(accept, "application/json") && accepts(accept, "text/event-stream")) return;
  throw refused(406, "Not Acceptable: Client must accept both application/json and text/event-stream");
}

/**
 * Whether an `Accept` header accepts a type, such as `text/event-stream`. The most specific range that covers
 * the type decides; a weight of zero refuses the type. An empty header accepts nothing.
 */
export function accepts(header: string, type: string): boolean {
  const ranges = [type, `${type.slice(0, type.indexOf("/"))}/*`, "*/*"];
  let closest = ranges.length;
  let isTaken = false;
  for (const part of header.split(",")) {
    const [range = "", ...parameters] = part.split(";").map((text) => text.trim().toLowerCase());
    const distance = ranges.indexOf(range);
    if (distance === -1 || distance > closest) continue;
    const isRefused = parameters.some((parameter) => /^q\s*=\s*0(?:\.0*)?$/.test(parameter));
    isTaken = (distance === closest && isTaken) || !isRefused;
    closest = distance;
  }
  return isTaken;
}

export function checkVersion({ headers }: IncomingMessage): void {
  const version = headers["mcp-protocol-version"];
  if (version === undefined || legacyVersions.includes(String(version))) return;
  const supported = legacyVersions.join(", ");
  throw refused(
    400,
    `Bad Request: Unsupported protocol version: ${version} (supported versions: ${supported})`,
  );
}

/** Throws when the Content-Type header names another charset than UTF-8. */
export function checkCharset({ headers }: IncomingMessage): void {
  const charset = /;\s*charset\s*=\s*"?([^";]*)/i.exec(headers["content-type"] ?? "")?.[1]?.trim();
  if (charset === undefined || /^utf-?8$/i.test(charset)) return;
  const text = `The body came with charset=${charset.slice(0, 100)}, and messages are read as UTF-8 alone. Send it in UTF-8.`;
  throw new HttpError("unsupported_media_type", text);
}

/** The answer to an HTTP request that is refused before it reaches a handler. */
export class Refusal {
  readonly status: number;
  readonly text: string;
  readonly headers: HeaderList;

  constructor(
    status: number,
    { code, message, data }: { readonly code: number; readonly message: string; readonly data?: unknown },
    id: RpcId | null = null,
    headers: HeaderList = [],
  ) {
    this.status = status;
    this.text = errorText(id, { code, message, data });
    this.headers = headers;
  }
}

/** Turns a thrown `Refusal`, `RpcError` or `HttpError` into a `Refusal`. Throws any other error again. */
export function toRefusal(thrown: unknown, id: RpcId | null): Refusal {
  if (thrown instanceof Refusal) return thrown;
  if (thrown instanceof RpcError) return new Refusal(400, thrown, id);
  if (!(thrown instanceof HttpError)) throw thrown;
  const { code, status, message, headers } = thrown;
  const isUnread = code === "invalid_json" || code === "bad_request";
  const error = { code: isUnread ? rpcCodes.parseError : rpcCodes.invalidRequest, message };
  return new Refusal(status, error, null, Object.entries(headers).flat());
}

export function refused(status: number, message: string): Refusal {
  return new Refusal(status, { code: rpcCodes.refused, message });
}

export function invalid(message: string): RpcError {
  return new RpcError(rpcCodes.invalidRequest, message);
}

/** The messages of a batch. Throws when the whole batch is refused. */
export function readBatch(body: readonly unknown[], version: unknown): RpcMessage[] {
  if (version === "2025-06-18" || version === "2025-11-25") {
    throw invalid(
      `${version} has no batches, and this body is one. Send each message in a request of its own.`,
    );
  }
  if (body.length === 0) throw invalid("Bad Request: empty JSON-RPC batch");
  const problem = batchProblem(body);
  if (problem !== undefined) throw invalid(problem);
  return body.map((value) => {
    const message = readRpc(value);
    if (message === undefined) throw invalid("Bad Request: JSON-RPC batch contains an invalid message");
    if (message.kind === "response") return message;
    if (message.meta[metaKeys.version] !== undefined) {
      const text = "Bad Request: JSON-RPC batches may not contain requests for protocol revision";
      throw invalid(`${text} ${modernVersion} or later`);
    }
    if (message.kind === "request" && message.method === "initialize")
      throw invalid("Invalid Request: Only one initialization request is allowed");
    return message;
  });
}
