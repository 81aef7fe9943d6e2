import type { EndedCall } from "../../calls/index.ts";
import { isRecord } from "../../helpers/index.ts";
import type { Era } from "../wire/index.ts";
import type { ClientAbilities } from "./clients.ts";
import type { Exchange } from "./exchange.ts";
import { declaredHeaders } from "./http/messages.ts";
import { pageSize, startOfPage, type Viewer } from "./lists.ts";
import type { McpParts, SdkFaces } from "./surface.ts";
import { taskSupportOf } from "./tasks.ts";
import { startToolCall, type ToolCallParams } from "./tools.ts";

/** How a call went on this path: answered, or begun and to be gone on with by the SDK. */
type HotOutcome =
  | { readonly kind: "answered"; readonly text: string }
  | { readonly kind: "begun"; readonly exchange: Exchange<EndedCall> };

/**
 * The short way for `tools/call` and `tools/list`: one look at the message, one call, one text. It begins only what it
 * understands whole, and hands a call that turns out to need more, such as a question to the client, on to the SDK
 * while it runs. So both ways answer the same.
 */
export class HotPath {
  readonly #parts: McpParts;
  readonly #faces: SdkFaces;
  readonly #endings: Readonly<Record<Era, string>>;

  constructor(parts: McpParts, faces: SdkFaces) {
    this.#parts = parts;
    this.#faces = faces;
    const meta = JSON.stringify({ "io.modelcontextprotocol/serverInfo": parts.serverInfo });
    this.#endings = { legacy: "", modern: `,"resultType":"complete","_meta":${meta}` };
  }

  /** Begins a call, unless there is something about its tool that only the SDK's way has. */
  begin(
    { params, envelope }: HotCall,
    viewer: Viewer,
    options: ConstructorParameters<typeof Exchange>[0],
  ): Exchange<EndedCall> | undefined {
    const info = this.#parts.registry.get(params.name);
    if (info === undefined || !viewer.sees(info)) return undefined;
    const support = taskSupportOf(this.#parts, viewer, params)?.support;
    // In the older versions there are no tasks: what is not for such a client is refused on the SDK's way.
    if (support === "required" || (support !== undefined && envelope !== undefined)) return undefined;
    if (envelope !== undefined && declaredHeaders(info).length > 0) return undefined;
    return startToolCall(this.#parts, viewer, params, options);
  }

  /** To be asked once the exchange has stirred: whether the call has ended with a plain result, or needs more than that. */
  outcome(exchange: Exchange<EndedCall>, id: string | number, era: Era, viewer: Viewer): HotOutcome {
    const ended = exchange.ended;
    if (ended === undefined || !this.#isPlainFor(exchange.subject, ended, era, viewer)) {
      return { kind: "begun", exchange };
    }
    const text = plainAnswer(ended, id, this.#endings[era]);
    return text === undefined ? { kind: "begun", exchange } : { kind: "answered", text };
  }

  /** The bytes of a list without what is around them: the same for every request, as long as the list is. */
  async list({ cursor }: HotList, era: Era, viewer: Viewer): Promise<Buffer | undefined> {
    const { made, tools } = this.#parts.lists.of(viewer);
    const start = startOfPage("tools", tools, ({ name }) => name, cursor);
    // Cursors come from outside and may begin anywhere; only the pages that we hand out ourselves are kept.
    if (start === undefined || start % pageSize > 0) return this.#faces.listBytes(era, cursor, viewer);
    const key = `${era} ${start}`;
    const known = made.get(key);
    if (known !== undefined) return known;
    const bytes = await this.#faces.listBytes(era, cursor, viewer);
    if (bytes !== undefined) made.set(key, bytes);
    return bytes;
  }

  /** In the older versions a value that is not what they allow is wrapped, by what the list says of the tool. */
  #isPlainFor(name: string, { result }: EndedCall, era: Era, viewer: Viewer): boolean {
    if (era === "modern" || result.structured === undefined) return true;
    const schema = this.#parts.lists.of(viewer).byName.get(name)?.outputSchema;
    return schema === undefined || schema.type === "object";
  }
}

/** The version of the protocol that has no sessions. */
export const modernVersion = "2026-07-28";
const VERSION = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES = "io.modelcontextprotocol/clientCapabilities";
const CLIENT = "io.modelcontextprotocol/clientInfo";

/** One of the two requests that are made all the time, in its plain form. */
export type HotRequest = HotCall | HotList;

export interface HotCall {
  readonly kind: "call";
  readonly id: string | number;
  readonly params: ToolCallParams;
  readonly envelope: Envelope | undefined;
}

export interface HotList {
  readonly kind: "list";
  readonly id: string | number;
  readonly cursor: string | undefined;
  readonly envelope: Envelope | undefined;
}

/** What a request of the newer version says about its client. */
interface Envelope {
  readonly abilities: ClientAbilities;
  readonly clientName: string;
}

/**
 * Reads a message, when it is plain enough that nothing in it could be answered otherwise than by doing it. Undefined
 * says nothing about it: the SDK reads whatever is not plain, and refuses what is wrong.
 */
export function readHotRequest(message: unknown): HotRequest | undefined {
  if (!isRecord(message)) return undefined;
  const { jsonrpc, id, method, params } = message;
  if (jsonrpc !== "2.0" || !isId(id) || !hasOnly(message, messageKeys)) return undefined;
  if (method === "tools/call") return readCall(id, params);
  return method === "tools/list" ? readList(id, params) : undefined;
}

function readCall(id: string | number, params: unknown): HotCall | undefined {
  if (!isRecord(params)) return undefined;
  const { name, arguments: args, _meta } = params;
  if (typeof name !== "string" || !hasOnly(params, callKeys)) return undefined;
  if (args !== undefined && !isRecord(args)) return undefined;
  const meta = readMeta(_meta);
  if (meta === undefined) return undefined;
  const { rest, envelope } = meta;
  const given = args === undefined ? { name } : { name, arguments: args };
  return { kind: "call", id, params: rest === undefined ? given : { ...given, _meta: rest }, envelope };
}

function readList(id: string | number, params: unknown): HotList | undefined {
  if (params === undefined) return { kind: "list", id, cursor: undefined, envelope: undefined };
  if (!isRecord(params)) return undefined;
  const { cursor, _meta } = params;
  if ((cursor !== undefined && typeof cursor !== "string") || !hasOnly(params, listKeys)) return undefined;
  const meta = readMeta(_meta);
  return meta && { kind: "list", id, cursor, envelope: meta.envelope };
}

interface ReadMeta {
  readonly envelope: Envelope | undefined;
  /** What is left for the call itself, such as a trace. */
  readonly rest: Record<string, unknown> | undefined;
}

/** Undefined when something in it wants more than a plain answer: progress, logs, or a closer look. */
function readMeta(meta: unknown): ReadMeta | undefined {
  if (meta === undefined) return { envelope: undefined, rest: undefined };
  if (!isRecord(meta)) return undefined;
  const { [VERSION]: version, [CAPABILITIES]: capabilities, [CLIENT]: client } = meta;
  let left: Record<string, unknown> | undefined;
  for (const key in meta) {
    if (key === VERSION || key === CAPABILITIES || key === CLIENT) continue;
    const value = meta[key];
    if (typeof value !== "string" || key === "progressToken" || key.startsWith("io.modelcontextprotocol/")) {
      return undefined;
    }
    left ??= {};
    left[key] = value;
  }
  if (version === undefined && capabilities === undefined && client === undefined) {
    return { envelope: undefined, rest: left };
  }
  if (version !== modernVersion || !isPlainAbilities(capabilities)) return undefined;
  const clientName = readClient(client);
  if (clientName === undefined) return undefined;
  return { envelope: { abilities: capabilities, clientName }, rest: left };
}

/** Capabilities in which nothing is said but that they are there. */
function isPlainAbilities(value: unknown): value is ClientAbilities {
  if (!isRecord(value)) return false;
  for (const [key, ability] of Object.entries(value)) {
    if (!isRecord(ability)) return false;
    const isPlain = key === "extensions" || key === "elicitation" ? allEmpty(ability) : !hasKeys(ability);
    if (!isPlain || !abilities.has(key)) return false;
  }
  return true;
}

const abilities: ReadonlySet<string> = new Set(["elicitation", "sampling", "roots", "extensions"]);

/** The name as records show it; undefined when it is not written as it should be. */
function readClient(client: unknown): string | undefined {
  if (client === undefined) return "";
  if (!isRecord(client)) return undefined;
  const { name, version, title } = client;
  if (typeof name !== "string" || typeof version !== "string" || !hasOnly(client, clientKeys))
    return undefined;
  return title === undefined || typeof title === "string" ? `${name} ${version}` : undefined;
}

function allEmpty(record: Record<string, unknown>): boolean {
  for (const value of Object.values(record)) if (!isRecord(value) || hasKeys(value)) return false;
  return true;
}

function isId(id: unknown): id is string | number {
  return typeof id === "string" || Number.isSafeInteger(id);
}

const messageKeys: ReadonlySet<string> = new Set(["jsonrpc", "id", "method", "params"]);
const callKeys: ReadonlySet<string> = new Set(["name", "arguments", "_meta"]);
const listKeys: ReadonlySet<string> = new Set(["cursor", "_meta"]);
const clientKeys: ReadonlySet<string> = new Set(["name", "version", "title"]);

function hasOnly(record: object, keys: ReadonlySet<string>): boolean {
  for (const key in record) if (!keys.has(key)) return false;
  return true;
}

function hasKeys(record: object): boolean {
  for (const _ in record) return true;
  return false;
}

/**
 * The answer to a call whose result is plain: text, and perhaps an object, for a tool that did not fail. Undefined for
 * any other, whose form is the SDK's business. `ending` is what results of this version of the protocol end with.
 */
function plainAnswer({ result, record }: EndedCall, id: string | number, ending: string): string | undefined {
  const { content, type, structured, blocks, attachments, metadata } = result;
  if (type === "error" || blocks !== undefined || metadata !== undefined || record.flags?.truncated)
    return undefined;
  if (attachments !== undefined && attachments.length > 0) return undefined;
  // A kind that does not follow from the rest is told in a field of our own.
  if ((type === "json") !== (structured !== undefined)) return undefined;
  const blocksText = content === "" ? "[]" : `[{"type":"text","text":${JSON.stringify(content)}}]`;
  if (structured === undefined) {
    return `{"result":{"content":${blocksText}${ending}},"jsonrpc":"2.0","id":${JSON.stringify(id)}}`;
  }
  if (typeof structured !== "object" || structured === null || Array.isArray(structured)) return undefined;
  const structuredText = JSON.stringify(structured);
  return `{"result":{"content":${blocksText},"structuredContent":${structuredText}${ending}},"jsonrpc":"2.0","id":${JSON.stringify(id)}}`;
}
