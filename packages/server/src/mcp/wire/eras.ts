import type { toMcpResult } from "@toolrack/core";
import { type JsonSchema, mapSchemas } from "@toolrack/core/internal/schema";
import { isRecord } from "../../helpers/index.ts";
import type { ClientAbilities, ClientInfo, Era } from "./client.ts";
import { errorText, RpcError, type RpcId, type RpcParams, rpcCodes } from "./json-rpc.ts";

/** The version of the protocol that has no sessions: every request says of its client what there is to know. */
export const modernVersion = "2026-07-28";
/** Those before it, the newest first. */
export const legacyVersions = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "2024-10-07"];
/** The one version whose connections over stdio have batches. Over HTTP those before it have them too. */
export const batchedVersion = "2025-03-26";

const PREFIX = "io.modelcontextprotocol/";
/** The members of `_meta` that are the protocol's own. */
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

/** The version that is spoken with a client that asks for this one. */
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

/** What a request of the modern era says of its client. */
export interface Envelope {
  readonly version: string;
  readonly abilities: ClientAbilities;
  readonly client: ClientInfo | undefined;
  readonly logLevel: string | undefined;
}

/** Whether a message is written as one of the modern era, whatever else is wrong with it. */
export function hasEnvelope(meta: RpcParams): boolean {
  return meta[metaKeys.version] !== undefined;
}

/** Throws an `RpcError` that names the first member that does not fit. */
export function readEnvelope(meta: RpcParams): Envelope {
  const version = meta[metaKeys.version];
  const abilities = meta[metaKeys.capabilities];
  const client = meta[metaKeys.client];
  const logLevel = meta[metaKeys.logLevel];
  if (abilities === undefined) throw misfit(metaKeys.capabilities, "missing");
  if (typeof version !== "string") throw misfit(metaKeys.version, expected("string", version));
  if (!isAbilities(abilities)) throw misfit(metaKeys.capabilities, abilitiesProblem(abilities));
  if (client !== undefined && !isClientInfo(client))
    throw misfit(metaKeys.client, "expected a name and a version, both of them strings");
  if (logLevel !== undefined && !isLogLevel(logLevel)) throw misfit(metaKeys.logLevel, notALevel);
  return { version, abilities, client, logLevel };
}

function misfit(key: string, problem: string): RpcError {
  const message = `Invalid _meta envelope for protocol revision ${modernVersion}: ${key}: ${problem}`;
  return new RpcError(rpcCodes.invalidParams, message, { envelope: { key, problem } });
}

/** What is wrong with a value that should be of this type, in the words in which the SDK says it. */
export function expected(type: string, value: unknown): string {
  const received = Array.isArray(value) ? "array" : value === null ? "null" : typeof value;
  return `Invalid input: expected ${type}, received ${received}`;
}

export const notALevel = `Invalid option: expected one of ${logLevels.map((level) => `"${level}"`).join("|")}`;

export function isLogLevel(value: unknown): value is string {
  return logLevels.includes(value);
}

/** Every ability is an object, whatever it says. */
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

/** How records and people name a client. */
export function clientNameOf(client: ClientInfo | undefined): string {
  return client === undefined ? "" : `${client.name} ${client.version}`;
}

/** What a tool answered, before it is written for one of the eras. */
export type CallAnswer = ReturnType<typeof toMcpResult>;

interface ListedTool {
  readonly outputSchema?: Readonly<Record<string, unknown>>;
}

/** What of results and errors differs from era to era. Handlers know nothing of it. */
export interface EraCodec {
  readonly era: Era;
  /** The text of a result. */
  encode(method: string, result: object): string;
  /** The text of what a tool answered; `outputSchema` is that of the list. */
  encodeCall(answer: CallAnswer, outputSchema: ListedTool["outputSchema"]): string;
  /** A tool as it stands in the list. */
  listed<Tool extends ListedTool>(tool: Tool): Tool;
  encodeError(id: RpcId, error: RpcError): string;
  /** The status of an answer with this error, where it comes in one message over HTTP. */
  statusOf(error: RpcError): number;
}

/** How long clients may go on with a list that they have, in milliseconds. They are told of changes, when they listen. */
export const listCacheTime = 30_000;

const cacheTimes: Readonly<Record<string, number>> = {
  "tools/list": listCacheTime,
  "prompts/list": listCacheTime,
  "resources/list": listCacheTime,
  "resources/templates/list": listCacheTime,
  "server/discover": listCacheTime,
  // What is behind it may change at any time.
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
      const said = answer.structuredContent === undefined ? answer : withText(answer);
      if (said._meta !== undefined) return this.encode("tools/call", said);
      return JSON.stringify(said).slice(0, -1) + ending;
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
    const said = answer.structuredContent === undefined ? answer : withText(answer);
    const { structuredContent: value } = said;
    // Structured content is an object in these versions, so that any other value is wrapped; in the list its schema is too.
    const isWrapped = value !== undefined && (!isRecord(value) || isWrappedSchema(outputSchema));
    return JSON.stringify(isWrapped ? { ...said, structuredContent: { result: value } } : said);
  },
  listed(tool) {
    const { outputSchema } = tool;
    return isWrappedSchema(outputSchema) ? { ...tool, outputSchema: wrapped(outputSchema) } : tool;
  },
  encodeError(id, { code, message, data }) {
    // A resource that there is not has a code of its own in these versions.
    const isResource = code === rpcCodes.invalidParams && isRecord(data) && data.uri !== undefined;
    return errorText(id, { code: isResource ? rpcCodes.resourceNotFound : code, message, data });
  },
  statusOf: () => 200,
};

/** A value that is no object is also told as text, for clients that look there alone. */
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

/** The schema as part of a larger one: its references to itself name its new place. */
function rerooted(schema: JsonSchema): JsonSchema {
  // References below an id of its own are relative to that.
  if (!isRecord(schema) || (typeof schema.$id === "string" && !schema.$id.startsWith("#"))) return schema;
  const copy = mapSchemas(schema, rerooted);
  for (const key of ["$ref", "$dynamicRef"]) {
    const target = copy[key];
    if (typeof target === "string" && /^#(?:\/|$)/.test(target)) copy[key] = `${ROOT}${target.slice(1)}`;
  }
  return copy;
}
