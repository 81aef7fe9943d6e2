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
  const isModernHeader = version !== undefined && version >= modernVersion;
  if (!hasEnvelope(meta)) {
    if (!isModernHeader) return undefined;
    if (kind === "notification") return { version, abilities: {}, client: undefined, logLevel: undefined };
    if (method === "initialize") {
      throw mismatch(
        version,
        "an initialize request (legacy handshake) was sent with a modern MCP-Protocol-Version header",
      );
    }
    throw withoutEnvelope(version, isRecord(params._meta) ? meta : undefined);
  }
  const envelope = readEnvelope(kind === "request" ? meta : { [metaKeys.capabilities]: {}, ...meta });
  if (version !== undefined && version !== envelope.version) {
    throw mismatch(
      version,
      `the body envelope names protocol version ${envelope.version} but the MCP-Protocol-Version header names ${version}`,
    );
  }
  const named = textOf(headers["mcp-method"]);
  if (named !== undefined && named !== method) {
    throw mismatch(named, `the body names method ${method} but the Mcp-Method header names ${named}`);
  }
  if (envelope.version !== modernVersion) throw unsupportedVersion(envelope.version);
  if (kind === "request") requireHeaders(message, version, named, textOf(headers["mcp-name"]));
  return envelope;
}

function withoutEnvelope(version: string, meta: object | undefined): RpcError {
  const needed = [metaKeys.version, metaKeys.capabilities].filter((key) => !Object.hasOwn(meta ?? {}, key));
  const missing = meta === undefined ? ["_meta"] : needed;
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

function requireHeaders(
  { method, params }: RpcRequest,
  version: string | undefined,
  named: string | undefined,
  name: string | undefined,
): void {
  if (version === undefined) {
    throw mismatch(
      MISSING,
      `the body envelope names protocol version ${modernVersion} but the required MCP-Protocol-Version header is absent`,
    );
  }
  if (named === undefined) {
    throw mismatch(MISSING, `the body names method ${method} but the required Mcp-Method header is absent`);
  }
  const source = nameSources.get(method);
  const value = source === undefined ? undefined : params[source];
  if (source === undefined || (name === value && value !== undefined)) return;
  if (name === undefined) {
    if (typeof value !== "string") return;
    throw mismatch(
      MISSING,
      `the body carries params.${source}="${value}" but the required Mcp-Name header is absent`,
    );
  }
  const said = decode(name);
  if (said === undefined)
    throw mismatch(name, "the Mcp-Name header carries an invalid Base64 sentinel value");
  if (typeof value === "string" && said !== value) {
    throw mismatch(
      name,
      `the body carries params.${source}="${value}" but the Mcp-Name header names "${said}"`,
    );
  }
}

const MISSING = "(missing)";

function mismatch(header: string, body: string): RpcError {
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
    if (typeof value !== "string" && typeof value !== "number" && typeof value !== "boolean") continue;
    const problem = paramProblem(header, path.join("."), value, headers[header]);
    if (problem !== undefined) throw new RpcError(rpcCodes.headerMismatch, problem);
  }
}

function paramProblem(
  header: string,
  place: string,
  value: string | number | boolean,
  sent: string | string[] | undefined,
): string | undefined {
  if (typeof sent !== "string") return `${place} is in the body, but there is no header ${header}.`;
  const said = decode(sent.trim());
  if (said === undefined) return `The header ${header} is not base64 of text in UTF-8.`;
  const isSame = typeof value === "number" ? Number(said) === value && said !== "" : said === String(value);
  return isSame ? undefined : `The header ${header} and ${place} in the body differ.`;
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
