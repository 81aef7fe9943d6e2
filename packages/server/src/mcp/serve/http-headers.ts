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
 * The envelope of a message of the modern era; undefined for the legacy era. Throws an `RpcError` when the headers and
 * the body disagree, because proxies that route by the headers must be able to trust them.
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

/** By method: the parameter that the header Mcp-Name repeats. */
const nameSources: ReadonlyMap<string, string> = new Map([
  ["tools/call", "name"],
  ["prompts/get", "name"],
  ["resources/read", "uri"],
  ["tasks/get", "taskId"],
  ["tasks/update", "taskId"],
  ["tasks/cancel", "taskId"],
]);

/** Throws unless a header has the same value as the body. */
function requireHeader(
  header: string,
  sent: string | undefined,
  member: string,
  value: string | number | boolean,
): void {
  if (sent === value) return;
  const decoded = sent === undefined ? undefined : decode(sent);
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

function textOf(header: string | string[] | undefined): string | undefined {
  return typeof header === "string" ? header.trim() : undefined;
}

interface DeclaredHeader {
  /** In lower case, as Node has it. */
  readonly header: string;
  readonly path: readonly string[];
}

/** A new version of a tool is another object, so entries never go out of date. */
const known = new WeakMap<ToolInfo, readonly DeclaredHeader[]>();

/** The arguments that must be repeated in headers, as `x-mcp-header` in the tool's schema says. */
function declaredHeaders(tool: ToolInfo): readonly DeclaredHeader[] {
  let declared = known.get(tool);
  if (declared === undefined) {
    declared = findDeclared(toDefinition(tool).inputSchema, []);
    known.set(tool, declared);
  }
  return declared;
}

function findDeclared(schema: unknown, path: readonly string[]): DeclaredHeader[] {
  if (!isRecord(schema)) return [];
  const { properties, "x-mcp-header": name } = schema;
  const own =
    typeof name === "string" && path.length > 0 ? [{ header: `mcp-param-${name.toLowerCase()}`, path }] : [];
  const below = Object.entries(isRecord(properties) ? properties : {});
  return [...own, ...below.flatMap(([key, part]) => findDeclared(part, [...path, key]))];
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

/** Values that a header cannot hold are wrapped in base64. Undefined when the base64 is invalid. */
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
