import type { IncomingHttpHeaders } from "node:http";
import { type ToolInfo, type ToolRegistry, toDefinition } from "@toolrack/core";
import { isRecord } from "../../helpers/index.ts";
import {
  type Envelope,
  hasEnvelope,
  metaKeys,
  metaOf,
  modernVersion,
  RpcError,
  type RpcNotification,
  type RpcParams,
  type RpcRequest,
  readEnvelope,
  rpcCodes,
  unsupportedVersion,
} from "../wire/index.ts";
import type { Caller } from "./caller.ts";

/**
 * What a message says of its client, when it is one of the modern era; undefined when it is of the legacy era. Whoever
 * routes by the headers must be able to trust them: throws an `RpcError` when they and the body disagree.
 */
export function readModern(
  message: RpcRequest | RpcNotification,
  headers: IncomingHttpHeaders,
): Envelope | undefined {
  const { method, params, kind } = message;
  const meta = metaOf(params);
  const version = textOf(headers["mcp-protocol-version"]);
  if (!hasEnvelope(meta)) {
    if (version === undefined || version < modernVersion) return undefined;
    if (kind === "notification") return { version, abilities: {}, client: undefined, logLevel: undefined };
    const text =
      "an initialize request (legacy handshake) was sent with a modern MCP-Protocol-Version header";
    throw method === "initialize" ? mismatch(version, text) : withoutEnvelope(version, params);
  }
  const envelope = readEnvelope(kind === "request" ? meta : { [metaKeys.capabilities]: {}, ...meta });
  const isRequired = kind === "request" && envelope.version === modernVersion;
  if (version !== undefined || isRequired) {
    requireHeader("MCP-Protocol-Version", version, metaKeys.version, envelope.version);
  }
  const named = textOf(headers["mcp-method"]);
  if (named !== undefined || isRequired) requireHeader("Mcp-Method", named, "method", method);
  if (envelope.version !== modernVersion) throw unsupportedVersion(envelope.version);
  const source = kind === "request" ? nameSources.get(method) : undefined;
  const name = source === undefined ? undefined : params[source];
  if (typeof name === "string")
    requireHeader("Mcp-Name", textOf(headers["mcp-name"]), `params.${source}`, name);
  return envelope;
}

function withoutEnvelope(version: string, { _meta: meta }: RpcParams): RpcError {
  const needed = [metaKeys.version, metaKeys.capabilities].filter((key) => !isRecord(meta) || !(key in meta));
  const missing = isRecord(meta) ? needed : ["_meta"];
  const message = `Invalid params: the MCP-Protocol-Version header names protocol revision ${version}, but the request is missing the required per-request envelope key(s): ${missing.join(", ")}`;
  return new RpcError(rpcCodes.invalidParams, message, { envelope: { missing } });
}

/** The member of the parameters that the header Mcp-Name repeats. */
const nameSources: ReadonlyMap<string, string> = new Map([
  ["tools/call", "name"],
  ["prompts/get", "name"],
  ["resources/read", "uri"],
  ["tasks/get", "taskId"],
  ["tasks/update", "taskId"],
  ["tasks/cancel", "taskId"],
]);

/** Throws unless a header repeats what the body says. */
function requireHeader(
  header: string,
  sent: string | undefined,
  member: string,
  value: string | number | boolean,
): void {
  if (sent === value) return;
  const said = sent === undefined ? undefined : decode(sent);
  const isSame = typeof value === "number" ? said !== "" && Number(said) === value : said === String(value);
  if (isSame) return;
  const unread = sent === undefined ? "is absent" : "is not base64 of text in UTF-8";
  const how = said === undefined ? unread : `says ${JSON.stringify(said)}`;
  throw mismatch(sent, `the body has ${member} ${JSON.stringify(value)}, but the header ${header} ${how}`);
}

function mismatch(sent: string | undefined, body: string): RpcError {
  const header = sent ?? "(missing)";
  const message = `Bad Request: the request headers and body disagree: ${body}`;
  return new RpcError(rpcCodes.headerMismatch, message, { mismatch: { header, body } });
}

function textOf(header: string | string[] | undefined): string | undefined {
  return typeof header === "string" ? header.trim() : undefined;
}

interface Declared {
  /** As Node spells it. */
  readonly header: string;
  readonly path: readonly string[];
}

/** Keyed by the tool itself: a new version of it is another object. */
const known = new WeakMap<ToolInfo, readonly Declared[]>();

/** The arguments that a tool wants to be repeated in headers, by `x-mcp-header` in its schema. */
function declaredHeaders(tool: ToolInfo): readonly Declared[] {
  let declared = known.get(tool);
  if (declared === undefined) {
    declared = find(toDefinition(tool).inputSchema, []);
    known.set(tool, declared);
  }
  return declared;
}

function find(schema: unknown, path: readonly string[]): Declared[] {
  if (!isRecord(schema)) return [];
  const { properties, "x-mcp-header": name } = schema;
  const own =
    typeof name === "string" && path.length > 0 ? [{ header: `mcp-param-${name.toLowerCase()}`, path }] : [];
  const below = Object.entries(isRecord(properties) ? properties : {});
  return [...own, ...below.flatMap(([key, part]) => find(part, [...path, key]))];
}

/** Throws an `RpcError` when the arguments of a call and the headers that its tool declares disagree. */
export function checkParamHeaders(
  registry: ToolRegistry,
  caller: Caller,
  { params: { name, arguments: args } }: RpcRequest,
  headers: IncomingHttpHeaders,
): void {
  const tool = typeof name === "string" ? registry.get(name) : undefined;
  if (tool === undefined || !caller.sees(tool)) return;
  for (const { header, path } of declaredHeaders(tool)) {
    const value = path.reduce<unknown>((at, key) => (isRecord(at) ? at[key] : undefined), args);
    if (typeof value === "string" || typeof value === "number" || typeof value === "boolean") {
      requireHeader(header, textOf(headers[header]), path.join("."), value);
    }
  }
}

const wrapped = /^=\?base64\?(.*)\?=$/;
const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
const decoder = new TextDecoder("utf-8", { fatal: true });

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
