import { toMcpResult } from "@toolrack/core";
import { type JsonSchema, mapSchemas } from "@toolrack/core/internal/schema";
import { CallRefused, type EndedCall } from "../../calls/index.ts";
import { MissingPromptArguments } from "../../files/index.ts";
import { isRecord } from "../../helpers/index.ts";
import { StoreUnavailable } from "../../store/index.ts";
import type { RpcId } from "../wire/index.ts";
import {
  type Era,
  errorText,
  isAboutRequest,
  metaKeys,
  type NeededAbility,
  RpcError,
  rpcCodes,
} from "../wire/index.ts";

/** The answer of a tool, before it is encoded for an era. */
type CallAnswer = ReturnType<typeof toMcpResult>;

type Schema = Readonly<Record<string, unknown>>;

/** Encodes results and errors for one era, so that most handlers need not know the era. */
export interface EraCodec {
  readonly era: Era;
  encode(method: string, result: object): string;
  /** Encodes a tool's answer. `outputSchema` is the tool's output schema as `ToolLists` has it. */
  encodeCall(answer: CallAnswer, outputSchema: Schema | undefined): string;
  /** The tool as `tools/list` shows it to clients of this era. */
  listed<Tool extends { readonly outputSchema?: Schema }>(tool: Tool): Tool;
  encodeError(id: RpcId, error: RpcError): string;
  /** The HTTP status for this error, when the answer is one message and no stream. */
  statusOf(error: RpcError): number;
}

/**
 * How long clients may cache a list, in milliseconds. Clients that subscribed to changes are told earlier.
 */
export const listCacheTime = 30_000;

const cacheTimes: Readonly<Record<string, number>> = {
  "tools/list": listCacheTime,
  "prompts/list": listCacheTime,
  "resources/list": listCacheTime,
  "resources/templates/list": listCacheTime,
  "server/discover": listCacheTime,
  // The content of a resource may change at any time.
  "resources/read": 0,
};

const modernStatuses: Readonly<Record<number, number>> = {
  [rpcCodes.methodNotFound]: 404,
  [rpcCodes.missingCapability]: 400,
  [rpcCodes.headerMismatch]: 400,
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
    statusOf: ({ code }) => modernStatuses[code] ?? 200,
  };
}

export const legacyCodec: EraCodec = {
  era: "legacy",
  encode: (_, result) => JSON.stringify(result),
  encodeCall(answer, outputSchema) {
    const result = answer.structuredContent === undefined ? answer : withText(answer);
    const { structuredContent: value } = result;
    // In the legacy versions structured content must be an object. Any other value is wrapped in one, and so
    // is its schema in the list of tools.
    const isWrapped = value !== undefined && (!isRecord(value) || isWrappedSchema(outputSchema));
    return JSON.stringify(isWrapped ? { ...result, structuredContent: { result: value } } : result);
  },
  listed(tool) {
    const { outputSchema } = tool;
    return isWrappedSchema(outputSchema) ? { ...tool, outputSchema: wrapped(outputSchema) } : tool;
  },
  encodeError(id, { code, message, data }) {
    // The legacy versions have a code of their own for a missing resource.
    const isResource = code === rpcCodes.invalidParams && isRecord(data) && data.uri !== undefined;
    return errorText(id, { code: isResource ? rpcCodes.resourceNotFound : code, message, data });
  },
  statusOf: () => 200,
};

/** Repeats a structured value that is not an object as text, for clients that read only text. */
function withText(answer: CallAnswer): CallAnswer {
  const { structuredContent: value, content } = answer;
  if (isRecord(value) || content.some(({ type }) => type === "text")) return answer;
  return { ...answer, content: [...content, { type: "text", text: JSON.stringify(value) }] };
}

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

/**
 * Rewrites the references that a schema has to its own root, because it becomes a part of a larger schema.
 */
function rerooted(schema: JsonSchema): JsonSchema {
  // A schema with its own `$id` has references relative to that id, so they stay valid.
  if (!isRecord(schema) || (typeof schema.$id === "string" && !schema.$id.startsWith("#"))) return schema;
  const copy = mapSchemas(schema, rerooted);
  for (const key of ["$ref", "$dynamicRef"]) {
    const target = copy[key];
    if (typeof target === "string" && /^#(?:\/|$)/.test(target))
      copy[key] = `#/properties/result${target.slice(1)}`;
  }
  return copy;
}

interface AnswerOptions {
  /** Whether the client supports resource links. */
  readonly canLink: boolean;
  /** Whether `tools/list` shows an output schema for the tool. */
  readonly hasOutputSchema: boolean;
}

/**
 * The result of a call in the form of the protocol. A truncated result comes with a link to the whole result,
 * if the client supports links.
 */
export function toolAnswer(ended: EndedCall, { canLink, hasOutputSchema }: AnswerOptions): CallAnswer {
  const { callId, record, result } = ended;
  const answer = hasOutputSchema ? withStructuredContent(toMcpResult(result), ended) : toMcpResult(result);
  if (record.flags?.truncated !== true || !canLink) return answer;
  const link = {
    type: "resource_link",
    uri: resultUri(callId),
    name: `The whole result of ${record.toolName}`,
    mimeType: "text/plain",
  };
  return { ...answer, content: [...answer.content, link] };
}

/** The address of the whole result of a call, or of its part from an offset on. */
export function resultUri(callId: string, offset = 0): string {
  return `toolrack://calls/${callId}/result${offset === 0 ? "" : `?offset=${offset}`}`;
}

/**
 * Clients refuse an answer without a structured value when the tool has an output schema. So the answer has the whole
 * value when only the text was truncated, and is an error when the value itself is too large.
 */
function withStructuredContent(answer: CallAnswer, { record, result }: EndedCall): CallAnswer {
  const { type, structured } = result;
  if (answer.structuredContent !== undefined || type === "error") return answer;
  if (structured !== undefined) return { ...answer, structuredContent: structured };
  const { truncated, outputMismatch } = record.flags ?? {};
  if (truncated !== true || outputMismatch !== undefined) return answer; // It never had a structured value.
  const text = `The call of ${record.toolName} succeeded, but its structured result is too large to be answered with. Its beginning and end follow. Ask for less, or read the whole by the call's id.`;
  return { ...answer, content: [{ type: "text", text }, ...answer.content], isError: true };
}

/**
 * The protocol error by which an upstream server refused the call, if it did, for the client to get the same: with the
 * server's code and data. A status of HTTP other than 400, and an error about the rack's connection to the server, stay
 * results, from which a model sees what happened.
 */
export function upstreamError({ content, error }: EndedCall["result"]): RpcError | undefined {
  const details: Readonly<Record<string, unknown>> = error?.details ?? {};
  const { kind, code, data, status = 400 } = details;
  const isPassedOn = kind === "refused" && isAboutRequest(code) && (status === 400 || status === 200);
  return isPassedOn ? new RpcError(code, content, data) : undefined;
}

/** Turns anything thrown into a protocol error. */
export function toRpcError(thrown: unknown): RpcError {
  if (thrown instanceof RpcError) return thrown;
  if (thrown instanceof StoreUnavailable) {
    const { code, message, reason, retryAfter } = thrown;
    return new RpcError(rpcCodes.unavailable, message, { code, reason, retryAfter });
  }
  if (thrown instanceof CallRefused) {
    const code = thrown.code === "tool_not_found" ? rpcCodes.invalidParams : rpcCodes.unavailable;
    const later = thrown.retryAfter === undefined ? {} : { retryAfter: thrown.retryAfter };
    return new RpcError(code, thrown.message, { code: thrown.code, ...thrown.details, ...later });
  }
  if (thrown instanceof MissingPromptArguments) return invalidParams(thrown.message);
  if (!(thrown instanceof Error)) return new RpcError(rpcCodes.internalError, "Internal error");
  // An upstream server's protocol error keeps its code and data.
  const { code, data } = thrown as { code?: unknown; data?: unknown }; // An error may have any other members.
  return new RpcError(isAboutRequest(code) ? code : rpcCodes.internalError, thrown.message, data);
}

export function invalidParams(message: string, data?: unknown): RpcError {
  return new RpcError(rpcCodes.invalidParams, message, data);
}

export function resourceNotFound(uri: string): RpcError {
  return invalidParams(`Resource not found: ${uri}`, { uri });
}

/** A parameter is invalid for this method. `place` is empty when the problem is not in one parameter. */
export function paramError(method: string, place: string, problem: string): RpcError {
  return invalidParams(
    `The parameters of ${method} do not fit: ${place === "" ? "" : `${place}: `}${problem}.`,
  );
}

/** The client did not declare a capability that its request needs. */
export function missingCapability(requiredCapabilities: NeededAbility, message?: string): RpcError {
  const names = Object.keys(requiredCapabilities).join(", ");
  const text = message ?? `Missing required client capabilities: ${names}`;
  return new RpcError(rpcCodes.missingCapability, text, { requiredCapabilities });
}
