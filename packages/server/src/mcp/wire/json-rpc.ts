import { isRecord } from "../../helpers/index.ts";

export type RpcId = string | number;

export type RpcParams = Readonly<Record<string, unknown>>;

/** A JSON-RPC 2.0 message as MCP uses it. `params` is an empty object when the sender left it out. */
export type RpcMessage = RpcRequest | RpcNotification | RpcResponse;

export interface RpcRequest {
  readonly kind: "request";
  readonly id: RpcId;
  readonly method: string;
  readonly params: RpcParams;
}

export interface RpcNotification {
  readonly kind: "notification";
  readonly method: string;
  readonly params: RpcParams;
}

export interface RpcResponse {
  readonly kind: "response";
  /** Undefined only for an error. */
  readonly id: RpcId | undefined;
  readonly result: RpcParams | undefined;
  readonly error: { readonly code: number; readonly message: string; readonly data?: unknown } | undefined;
}

/** The error codes. Those from -32000 to -32019 are free for implementations to define. */
export const rpcCodes = {
  parseError: -32700,
  invalidRequest: -32600,
  methodNotFound: -32601,
  invalidParams: -32602,
  internalError: -32603,
  refused: -32000,
  /** A session, an expert or a server does not exist, or cannot be reached now. */
  unavailable: -32001,
  /** In the versions before 2026-07-28. */
  resourceNotFound: -32002,
  headerMismatch: -32020,
  missingCapability: -32021,
  unsupportedVersion: -32022,
} as const;

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

/** Reads a value from outside as a message. Undefined when it is not one. */
export function readRpc(value: unknown): RpcMessage | undefined {
  if (!isRecord(value) || value.jsonrpc !== "2.0") return undefined;
  const { id, method, params } = value;
  if (method === undefined) return readResponse(value);
  if (typeof method !== "string" || !hasOnly(value, requestKeys)) return undefined;
  if (params !== undefined && !isParams(params)) return undefined;
  if (isId(id)) return { kind: "request", id, method, params: params ?? noParams };
  return "id" in value ? undefined : { kind: "notification", method, params: params ?? noParams };
}

function readResponse(value: Record<string, unknown>): RpcResponse | undefined {
  const { id, result, error } = value;
  if (!hasOnly(value, responseKeys) || (id !== undefined && !isId(id))) return undefined;
  if (isRecord(result) && isId(id) && error === undefined) {
    return { kind: "response", id, result, error: undefined };
  }
  if (!isRecord(error) || result !== undefined) return undefined;
  const { code, message, data } = error;
  if (!Number.isSafeInteger(code) || typeof message !== "string") return undefined;
  return { kind: "response", id, result: undefined, error: { code: Number(code), message, data } };
}

const noParams: RpcParams = Object.freeze({});
const requestKeys: ReadonlySet<string> = new Set(["jsonrpc", "id", "method", "params"]);
const responseKeys: ReadonlySet<string> = new Set(["jsonrpc", "id", "result", "error"]);

function hasOnly(record: object, keys: ReadonlySet<string>): boolean {
  for (const key in record) if (!keys.has(key)) return false;
  return true;
}

function isParams(value: unknown): value is RpcParams {
  if (!isRecord(value)) return false;
  const { _meta: meta } = value;
  if (meta === undefined) return true;
  return isRecord(meta) && (meta.progressToken === undefined || isId(meta.progressToken));
}

export function isId(id: unknown): id is RpcId {
  return typeof id === "string" || Number.isSafeInteger(id);
}

export function metaOf({ _meta: meta }: RpcParams): RpcParams {
  return isRecord(meta) ? meta : noParams;
}

/** The id for the error that answers an invalid message; null when the message has no usable id. */
export function refusedIdOf(value: unknown): RpcId | null {
  if (!isRecord(value)) return null;
  const { id } = value;
  return typeof id === "string" || typeof id === "number" ? id : null;
}

/** Whether an invalid message is answered with an error. Notifications and responses are never answered. */
export function wantsRefusal(value: unknown): boolean {
  if (!isRecord(value)) return true;
  if ("result" in value || "error" in value) return false;
  return "id" in value || typeof value.method !== "string";
}

/** `result` is JSON already. */
export function resultText(id: RpcId, result: string): string {
  return `{"result":${result},"jsonrpc":"2.0","id":${JSON.stringify(id)}}`;
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

/** Whether a message only says that something has changed. Sending such a notification twice tells the client nothing new. */
export function isChangeNotice(message: object): boolean {
  if ("id" in message || !("method" in message) || typeof message.method !== "string") return false;
  return message.method.endsWith("/list_changed") || message.method === "notifications/resources/updated";
}
