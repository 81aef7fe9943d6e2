import type { toMcpResult } from "@toolrack/core";
import { type JsonSchema, mapSchemas } from "@toolrack/core/internal/schema";
import { isRecord } from "../../helpers/index.ts";
import type { ClientAbilities, ClientInfo, Era } from "./client.ts";
import { errorText, RpcError, type RpcId, type RpcParams, rpcCodes } from "./json-rpc.ts";

/** The version of the protocol without sessions: every request describes its client. */
export const modernVersion = "2026-07-28";
/** The older versions, newest first. */
export const legacyVersions = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "2024-10-07"];
/** The only version with batches over stdio. Over HTTP the versions before it have them too. */
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
export const tasksExtension = `${PREFIX}tasks`;
export const skillsExtension = `${PREFIX}skills`;

export const logLevels: readonly unknown[] = [
  ...["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"],
];

/** The version that the server chooses for a client that requests this one. */
export function negotiated(requested: string): string {
  return legacyVersions.includes(requested) ? requested : legacyVersions[0]!;
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

/** Whether a message claims to be of the modern era. The rest of it may still be invalid. */
export function hasEnvelope(meta: RpcParams): boolean {
  return meta[metaKeys.version] !== undefined;
}

/** Throws an `RpcError` that names the first invalid member. */
export function readEnvelope(meta: RpcParams): Envelope {
  const version = meta[metaKeys.version];
  const abilities = meta[metaKeys.capabilities];
  const client = meta[metaKeys.client];
  const logLevel = meta[metaKeys.logLevel];
  if (abilities === undefined) throw envelopeError(metaKeys.capabilities, "missing");
  if (typeof version !== "string") throw envelopeError(metaKeys.version, expected("string", version));
  if (!isAbilities(abilities)) throw envelopeError(metaKeys.capabilities, abilitiesProblem(abilities));
  if (client !== undefined && !isClientInfo(client))
    throw envelopeError(metaKeys.client, "expected a name and a version, both of them strings");
  if (logLevel !== undefined && !isLogLevel(logLevel)) throw envelopeError(metaKeys.logLevel, notALevel);
  return { version, abilities, client, logLevel };
}

function envelopeError(key: string, problem: string): RpcError {
  const message = `Invalid _meta envelope for protocol revision ${modernVersion}: ${key}: ${problem}`;
  return new RpcError(rpcCodes.invalidParams, message, { envelope: { key, problem } });
}

/** Says that a value is not of this type, in the wording of the SDK. */
export function expected(type: string, value: unknown): string {
  const received = Array.isArray(value) ? "array" : value === null ? "null" : typeof value;
  return `Invalid input: expected ${type}, received ${received}`;
}

export const notALevel = `Invalid option: expected one of ${logLevels.map((level) => `"${level}"`).join("|")}`;

export function isLogLevel(value: unknown): value is string {
  return logLevels.includes(value);
}

/** Every ability must be an object; its content does not matter. */
export function isAbilities(value: unknown): value is ClientAbilities {
  if (!isRecord(value)) return false;
  for (const key in value) if (!isRecord(value[key])) return false;
  return true;
}

function abilitiesProblem(value: unknown): string {
  if (!isRecord(value)) return expected("object", value);
  const wrong = Object.entries(value).find(([, ability]) => !isRecord(ability));
  return `${wrong?.[0]}: ${expected("object", wrong?.[1])}`;
}

export function isClientInfo(value: unknown): value is ClientInfo {
  return isRecord(value) && typeof value.name === "string" && typeof value.version === "string";
}

/** The client's name in call records and for people. */
export function clientNameOf(client: ClientInfo | undefined): string {
  return client === undefined ? "" : `${client.name} ${client.version}`;
}

/** The answer of a tool, before it is encoded for an era. */
export type CallAnswer = ReturnType<typeof toMcpResult>;

interface ListedTool {
  readonly outputSchema?: Readonly<Record<string, unknown>>;
}

/** Encodes results and errors for one era. Handlers know nothing of eras. */
export interface EraCodec {
  readonly era: Era;
  encode(method: string, result: object): string;
  /** Encodes a tool's answer. `outputSchema`: the one in the list of tools. */
  encodeCall(answer: CallAnswer, outputSchema: ListedTool["outputSchema"]): string;
  /** A tool as the list shows it. */
  listed<Tool extends ListedTool>(tool: Tool): Tool;
  encodeError(id: RpcId, error: RpcError): string;
  /** The HTTP status for this error, when the answer is one message and no stream. */
  statusOf(error: RpcError): number;
}

/** How long clients may keep a list, in milliseconds. Clients that listen are told of changes. */
export const listCacheTime = 30_000;

const cacheTimes: Readonly<Record<string, number>> = {
  "tools/list": listCacheTime,
  "prompts/list": listCacheTime,
  "resources/list": listCacheTime,
  "resources/templates/list": listCacheTime,
  "server/discover": listCacheTime,
  // The content may change at any time.
  "resources/read": 0,
};

export function modernCodec(serverInfo: object): EraCodec {
  const own = { [metaKeys.server]: serverInfo };
  const ending = `,"resultType":"complete","_meta":${JSON.stringify(own)}}`;
  return {
    era: "modern",
    encode(method, result) {
      const { resultType = "complete", _meta = {} }: { resultType?: unknown; _meta?: object } = result;
      const ttlMs = resultType === "complete" ? cacheTimes[method] : undefined;
      const cache = ttlMs === undefined ? {} : { ttlMs, cacheScope: "private" };
      return JSON.stringify({ ...result, resultType, ...cache, _meta: { ...own, ..._meta } });
    },
    encodeCall(answer) {
      const result = answer.structuredContent === undefined ? answer : withText(answer);
      if (result._meta !== undefined) return this.encode("tools/call", result);
      return JSON.stringify(result).slice(0, -1) + ending;
    },
    listed: (tool) => tool,
    encodeError: errorText,
    statusOf: ({ code }) =>
      code === rpcCodes.methodNotFound ? 404 : code === rpcCodes.missingCapability ? 400 : 200,
  };
}

export const legacyCodec: EraCodec = {
  era: "legacy",
  encode: (_, result) => JSON.stringify(result),
  encodeCall(answer, outputSchema) {
    const result = answer.structuredContent === undefined ? answer : withText(answer);
    const { structuredContent: value } = result;
    // In these versions structured content must be an object. Any other value is wrapped, and so is its schema in the list.
    const isWrapped = value !== undefined && (!isRecord(value) || isWrappedSchema(outputSchema));
    return JSON.stringify(isWrapped ? { ...result, structuredContent: { result: value } } : result);
  },
  listed(tool) {
    const { outputSchema } = tool;
    return isWrappedSchema(outputSchema) ? { ...tool, outputSchema: wrapped(outputSchema) } : tool;
  },
  encodeError(id, { code, message, data }) {
    // These versions have a code of their own for a missing resource.
    const isResource = code === rpcCodes.invalidParams && isRecord(data) && data.uri !== undefined;
    return errorText(id, { code: isResource ? rpcCodes.resourceNotFound : code, message, data });
  },
  statusOf: () => 200,
};

/** Adds a text with the value when it is not an object, for clients that read only text. */
function withText(answer: CallAnswer): CallAnswer {
  const { structuredContent: value, content } = answer;
  if (isRecord(value) || content.some(({ type }) => type === "text")) return answer;
  return { ...answer, content: [...content, { type: "text", text: JSON.stringify(value) }] };
}

type Schema = Readonly<Record<string, unknown>>;

function isWrappedSchema(schema: Schema | undefined): schema is Schema {
  return schema !== undefined && schema.type !== "object";
}

function wrapped(schema: Schema): Schema {
  const { $schema } = schema;
  return {
    ...(typeof $schema === "string" ? { $schema } : {}),
    type: "object",
    properties: { result: rerooted(schema) },
    required: ["result"],
  };
}

const ROOT = "#/properties/result";

/** Rewrites the references of a schema to itself, because it becomes a part of a larger schema. */
function rerooted(schema: JsonSchema): JsonSchema {
  // A schema with its own `$id` has references relative to that id, so they stay valid.
  if (!isRecord(schema) || (typeof schema.$id === "string" && !schema.$id.startsWith("#"))) return schema;
  const copy = mapSchemas(schema, rerooted);
  for (const key of ["$ref", "$dynamicRef"]) {
    const target = copy[key];
    if (typeof target === "string" && /^#(?:\/|$)/.test(target)) copy[key] = `${ROOT}${target.slice(1)}`;
  }
  return copy;
}
