import { isRecord } from "@toolrack/core/internal/schema";
import { headOfLongMessage } from "../../helpers/values.ts";
import type { ClientAbilities, ClientInfo } from "./client.ts";

export type RpcId = string | number;

export type RpcParams = Readonly<Record<string, unknown>>;

/** A JSON-RPC 2.0 message as MCP uses it. */
export type RpcMessage = RpcRequest | RpcNotification | RpcResponse;

export interface RpcRequest {
  readonly kind: "request";
  readonly id: RpcId;
  readonly method: string;
  /** Empty when the sender left it out. */
  readonly params: RpcParams;
  /** The `_meta` of `params`; empty when the sender left it out. */
  readonly meta: RpcParams;
}

export interface RpcNotification extends Omit<RpcRequest, "kind" | "id"> {
  readonly kind: "notification";
}

export interface RpcResponse {
  readonly kind: "response";
  /** Undefined only in an error response that names no request. */
  readonly id: RpcId | undefined;
  readonly result: RpcParams | undefined;
  readonly error: { readonly code: number; readonly message: string; readonly data?: unknown } | undefined;
}

/** The error codes. Implementations may define those from -32000 to -32019 themselves. */
export const rpcCodes = {
  parseError: -32700,
  invalidRequest: -32600,
  methodNotFound: -32601,
  invalidParams: -32602,
  internalError: -32603,
  refused: -32000,
  /** A session, an expert or a server does not exist, or cannot be reached now. */
  unavailable: -32001,
  /** Used only in versions of the protocol before 2026-07-28. */
  resourceNotFound: -32002,
  headerMismatch: -32020,
  missingCapability: -32021,
  unsupportedVersion: -32022,
} as const;

/** Errors about the messages or the version of a connection. They mean nothing to whoever is not on that connection. */
const connectionCodes: ReadonlySet<unknown> = new Set([
  ...[rpcCodes.parseError, rpcCodes.invalidRequest, rpcCodes.methodNotFound],
  ...[rpcCodes.headerMismatch, rpcCodes.unsupportedVersion],
]);

/** Whether an error with this code is about the request itself, so that it is passed on along a row of servers. */
export function isAboutRequest(code: unknown): code is number {
  return Number.isSafeInteger(code) && !connectionCodes.has(code);
}

/** The error that a request is answered with. */
export class RpcError extends Error {
  readonly code: number;
  readonly data: unknown;

  constructor(code: number, message: string, data?: unknown) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

const none: RpcParams = Object.freeze({});
const requestKeys: ReadonlySet<string> = new Set(["jsonrpc", "id", "method", "params"]);
const responseKeys: ReadonlySet<string> = new Set(["jsonrpc", "id", "result", "error"]);

/** Reads a parsed JSON value as a message. Undefined when the value is not a valid message. */
export function readRpc(value: unknown): RpcMessage | undefined {
  if (!isRecord(value) || value.jsonrpc !== "2.0") return undefined;
  const { id, method, params = none } = value;
  const keys = method === undefined ? responseKeys : requestKeys;
  for (const key in value) if (!keys.has(key)) return undefined;
  if (method === undefined) return readResponse(value);
  if (typeof method !== "string" || !isRecord(params)) return undefined;
  const { _meta: meta = none } = params;
  if (!isRecord(meta) || (meta.progressToken !== undefined && !isId(meta.progressToken))) return undefined;
  if (typeof id === "string" || Number.isSafeInteger(id))
    return { kind: "request", id: id as RpcId, method, params, meta }; // `id` was checked above.
  return "id" in value ? undefined : { kind: "notification", method, params, meta };
}

function readResponse({ id, result, error }: Record<string, unknown>): RpcResponse | undefined {
  if (id !== undefined && !isId(id)) return undefined;
  if (isRecord(result) && id !== undefined && error === undefined) {
    return { kind: "response", id, result, error: undefined };
  }
  if (!isRecord(error) || result !== undefined) return undefined;
  const { code, message, data } = error;
  if (!Number.isSafeInteger(code) || typeof message !== "string") return undefined;
  return { kind: "response", id, result: undefined, error: { code: Number(code), message, data } };
}

export function isId(id: unknown): id is RpcId {
  return typeof id === "string" || Number.isSafeInteger(id);
}

/** The id for the error that answers an invalid message; null when the message has no usable id. */
export function refusedIdOf(value: unknown): RpcId | null {
  const id = isRecord(value) ? value.id : undefined;
  return typeof id === "string" || typeof id === "number" ? id : null;
}

/** Whether an invalid message is answered with an error. Notifications and responses are never answered. */
export function wantsRefusal(value: unknown): boolean {
  if (!isRecord(value)) return true;
  if ("result" in value || "error" in value) return false;
  return "id" in value || typeof value.method !== "string";
}

export function errorText(
  id: RpcId | null,
  { code, message, data }: { readonly code: number; readonly message: string; readonly data?: unknown },
): string {
  return JSON.stringify({ jsonrpc: "2.0", error: { code, message, data }, id });
}

/** Which request a notification cancels, and why. Undefined when the message cancels none. */
export function cancellationOf(
  message: RpcMessage,
): { readonly id: RpcId; readonly reason: string } | undefined {
  if (message.kind !== "notification" || message.method !== "notifications/cancelled") return undefined;
  const { requestId: id, reason } = message.params;
  if (!isId(id)) return undefined;
  return { id, reason: typeof reason === "string" ? reason : "the client cancelled it" };
}

/** The error for a client that uses the id of a request that is still being answered. */
export function reusedId(id: RpcId): RpcError {
  // The client chose the id, so it may be very long.
  const shown = JSON.stringify(id).slice(0, 100);
  return new RpcError(
    rpcCodes.invalidRequest,
    `A request with the id ${shown} is still under way, so that this one was not begun. Send it again with an id that no other request has.`,
  );
}

/** The longest message that a client may send, in bytes, over any transport. */
export const longestMessage = 10 * 1024 * 1024;

/** The answer to a message that was too long to be kept, from its first and last characters. */
export function longMessageRefusal(start: string, end: string): string {
  const { id = null, method } = headOfLongMessage(start, end);
  const message = `A message is longer than ${longestMessage} bytes, the most that is taken.`;
  return errorText(method === undefined ? null : id, { code: rpcCodes.invalidRequest, message });
}

/** The lists of a server whose changes are announced. */
export const lists = ["tools", "prompts", "resources"] as const;
export type ListName = (typeof lists)[number];

/** The version of the protocol without sessions: every request describes its client. */
export const modernVersion = "2026-07-28";
/** The older versions, newest first. A client that asks for an unknown version is given the first. */
export const legacyVersions = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "2024-10-07"];
/** The only version with batches over stdio. Over HTTP the older versions have batches too. */
export const batchedVersion = "2025-03-26";

const PREFIX = "io.modelcontextprotocol/";

/** The keys in `_meta` that the protocol defines. */
export const metaKeys = {
  version: `${PREFIX}protocolVersion`,
  capabilities: `${PREFIX}clientCapabilities`,
  client: `${PREFIX}clientInfo`,
  logLevel: `${PREFIX}logLevel`,
  server: `${PREFIX}serverInfo`,
  subscription: `${PREFIX}subscriptionId`,
} as const;
/** The member of a question's `_meta` in which the asker may choose the key of the question in `inputRequests`. */
export const questionKey = "toolrack/key";
export const tasksExtension = `${PREFIX}tasks`;
export const skillsExtension = `${PREFIX}skills`;

export const logLevels: readonly unknown[] = [
  ...["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"],
];
export const notALevel = `Invalid option: expected one of ${logLevels.map((level) => `"${level}"`).join("|")}`;

export function isLogLevel(value: unknown): value is string {
  return logLevels.includes(value);
}

export function unsupportedVersion(requested: unknown): RpcError {
  const shown = typeof requested === "string" ? requested : "unknown";
  return new RpcError(rpcCodes.unsupportedVersion, `Unsupported protocol version: ${shown}`, {
    supported: [modernVersion],
    requested: shown,
  });
}

/** What a request of the modern era says about its client. */
export interface Envelope {
  readonly version: string;
  readonly abilities: ClientAbilities;
  readonly client: ClientInfo | undefined;
  readonly logLevel: string | undefined;
}

/**
 * Reads the `_meta` of a message that has a version in it, and so claims to be of the modern era. Throws an `RpcError`
 * that names the first invalid member.
 */
export function readEnvelope(meta: RpcParams): Envelope {
  const version = meta[metaKeys.version];
  const abilities = meta[metaKeys.capabilities];
  const client = meta[metaKeys.client];
  const logLevel = meta[metaKeys.logLevel];
  if (abilities === undefined) throw envelopeError(metaKeys.capabilities, "missing");
  if (typeof version !== "string") throw envelopeError(metaKeys.version, expected("string", version));
  if (!isRecord(abilities)) throw envelopeError(metaKeys.capabilities, expected("object", abilities));
  for (const key in abilities) {
    if (isRecord(abilities[key])) continue;
    throw envelopeError(metaKeys.capabilities, `${key}: ${expected("object", abilities[key])}`);
  }
  if (client !== undefined && !isClientInfo(client))
    throw envelopeError(metaKeys.client, "expected a name and a version, both of them strings");
  if (logLevel !== undefined && !isLogLevel(logLevel)) throw envelopeError(metaKeys.logLevel, notALevel);
  // The loop has checked that every ability is an object. Nothing more is required of one.
  return { version, abilities: abilities as ClientAbilities, client, logLevel };
}

function envelopeError(key: string, problem: string): RpcError {
  const message = `Invalid _meta envelope for protocol revision ${modernVersion}: ${key}: ${problem}`;
  return new RpcError(rpcCodes.invalidParams, message, { envelope: { key, problem } });
}

/** A message that a value is not of this type, in the wording of the SDK. */
export function expected(type: string, value: unknown): string {
  const received = Array.isArray(value) ? "array" : value === null ? "null" : typeof value;
  return `Invalid input: expected ${type}, received ${received}`;
}

/** Every ability must be an object; its content does not matter. */
export function isAbilities(value: unknown): value is ClientAbilities {
  if (!isRecord(value)) return false;
  for (const key in value) if (!isRecord(value[key])) return false;
  return true;
}

export function isClientInfo(value: unknown): value is ClientInfo {
  return isRecord(value) && typeof value.name === "string" && typeof value.version === "string";
}
