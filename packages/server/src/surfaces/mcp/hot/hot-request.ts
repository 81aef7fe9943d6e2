import { isRecord } from "../../../json/is-record.ts";
import type { ClientAbilities } from "../client-abilities.ts";
import type { ToolCallParams } from "../start-tool-call.ts";

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
export interface Envelope {
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
