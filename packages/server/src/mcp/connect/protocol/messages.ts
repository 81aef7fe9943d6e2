import { AsyncLocalStorage } from "node:async_hooks";
import type { DiscoverResult } from "@modelcontextprotocol/client";
import type { CallClient, LogLevel, ProgressUpdate, ToolContext } from "@toolrack/core";
import { logLine, waitingForTurn, whenAborted } from "@toolrack/core/internal";
import { approvalMark } from "../../../calls/index.ts";
import { isRecord, unlessAborted } from "../../../helpers/index.ts";
import { fingerprintOf, type ServerEntry } from "../config/entry.ts";

/** A message as it came, or a part of one. */
export type Message = Readonly<Record<string, unknown>>;

/** A longer one is not read, in bytes. */
export const LONGEST_MESSAGE = 64 * 1024 * 1024;

/** A request to an upstream server. */
export interface UpstreamRequest {
  readonly method: string;
  readonly params: Message;
  /** Gives up the request, here and there. */
  readonly signal?: AbortSignal | undefined;
  /** The same, where asking for the signal would make one. Returns a function that stops it. */
  readonly whenAborted?: (act: (reason: unknown) => void) => () => void;
  /** In milliseconds. Without it, only the signal ends the waiting. */
  readonly timeout?: number;
  /** Whom the server's own questions reach while it works on this. */
  readonly client?: CallClient | undefined;
  readonly onProgress?: (update: ProgressUpdate) => void;
  /** Is told what the server logs while it works on this. */
  readonly onLog?: (params: Message) => void;
  /** Says that it waits for its turn. Returns a function that says that its turn has come. */
  readonly waitingForTurn?: () => () => void;
  /** Asked right before it is sent, every time: throws when the server is not what it was when a person agreed to it. */
  readonly admit?: () => void;
  /** For a server that is reached over HTTP. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** By which a gateway before a server that is reached over HTTP knows where to send it, beside its method. */
  readonly routingName?: string;
  /** The server works on it only as a task. */
  readonly isTask?: boolean;
}

/** A request under way over HTTP, and what is known of the answer that it is being given. */
export interface Answering {
  readonly request: UpstreamRequest;
  /** The status of the answer. */
  status?: number;
  /** The answer is a stream, whose end is told of. Any other has ended when it was read. */
  isStream?: true;
  /** Why the stream of the answer ended too early, when we know. */
  problem?: string;
}

/** What was found out about how a server talks, so that it need not be found out at every start. */
export interface Verdict {
  readonly era: "modern" | "legacy";
  /** What a server of the stateless protocol said about itself. */
  readonly discover?: DiscoverResult | undefined;
  readonly transport: "stdio" | "http" | "sse";
  /** Milliseconds since the epoch. */
  readonly at: number;
  /** Of the part of the entry that decides which program or address it is. */
  readonly fingerprint: string;
}

const DAY = 24 * 60 * 60_000;

/** The verdict, unless it is about another server, or about an old one that may have been renewed since. */
export function stillHolds(verdict: Verdict | undefined, entry: ServerEntry): Verdict | undefined {
  if (verdict === undefined || verdict.fingerprint !== fingerprintOf(entry)) return undefined;
  const isStale = verdict.era === "legacy" ? Date.now() - verdict.at > DAY : verdict.discover === undefined;
  return isStale ? undefined : verdict;
}

/** A call of a tool as a request to its server. What few requests need is made when it is asked for. */
export class ToolRequest implements UpstreamRequest {
  readonly method = "tools/call";
  readonly params: Message;
  readonly headers: Readonly<Record<string, string>> | undefined;
  readonly isTask: boolean;
  readonly admit: () => void;
  readonly #context: ToolContext;
  #client: CallClient | undefined;

  constructor(
    { name, isTask }: { readonly name: string; readonly isTask?: boolean },
    context: ToolContext,
    headers: Readonly<Record<string, string>> | undefined,
    admit: () => void,
  ) {
    this.params = { name, arguments: context.input };
    this.headers = headers;
    this.admit = admit;
    this.isTask = isTask === true;
    this.#context = context;
  }

  get signal(): AbortSignal {
    return this.#context.signal;
  }

  get client(): CallClient | undefined {
    if (this.#client !== undefined) return this.#client;
    const { client } = this.#context;
    const canAsk = client?.can("elicitation/create") === true;
    this.#client = canAsk ? withApprovalsHere(client, this.#context) : client;
    return this.#client;
  }

  whenAborted(act: (reason: unknown) => void): () => void {
    return whenAborted(this.#context, act);
  }

  waitingForTurn(): () => void {
    return waitingForTurn(this.#context);
  }

  onProgress(update: ProgressUpdate): void {
    this.#context.progress(update);
  }

  onLog({ level, logger, data }: Message): void {
    const name = typeof logger === "string" && logger !== "" ? [`[${logger}]`] : [];
    logLine(this.#context, levels.get(level) ?? "info", ...name, data);
  }
}

/** The levels of the protocol that are not `info` here. */
const levels: ReadonlyMap<unknown, LogLevel> = new Map([
  ["debug", "debug"],
  ["warning", "warn"],
  ["error", "error"],
  ["critical", "error"],
  ["alert", "error"],
  ["emergency", "error"],
]);

/**
 * The caller as a server may ask it. Where another rack asks whether a call may run, the answer is an approval, which not
 * every caller may give: it is asked for as one of this rack, of whoever may give it here.
 */
function withApprovalsHere(client: CallClient, { ask }: ToolContext): CallClient {
  // The question arrives with a message of the server; the person to ask is found by the call that it is about.
  const duringCall = AsyncLocalStorage.snapshot();
  return {
    ...(client.name === undefined ? {} : { name: client.name }),
    get logLevel() {
      return client.logLevel;
    },
    can: (method, params) => client.can(method, params),
    notify: (method, params) => client.notify(method, params),
    async request(method, params, signal) {
      const { _meta, message } = isRecord(params) ? params : {};
      if (!isRecord(_meta) || _meta[approvalMark] === undefined)
        return client.request(method, params, signal);
      const asked = duringCall(() => ask(String(message))).then(
        () => ({ action: "accept", content: { approve: true } }),
        (thrown: Error) => ({ action: "accept", content: { approve: false, reason: thrown.message } }),
      );
      await unlessAborted(asked, signal);
      return asked;
    },
  };
}

/** An argument that the stateless protocol wants repeated as a header of the HTTP request. */
interface HeaderParameter {
  readonly path: readonly string[];
  readonly header: string;
}

/** What the name of a header can be made of. */
const headerName = /^[\w!#$%&'*+.^`|~-]+$/;

const headerParameters = new WeakMap<object, readonly HeaderParameter[]>();

/** The headers that a tool's schema asks for with `x-mcp-header`; undefined when it asks for none. */
export function parameterHeaders(schema: Message, input: unknown): Record<string, string> | undefined {
  let parameters = headerParameters.get(schema);
  if (parameters === undefined) {
    parameters = parametersOf(schema, []);
    headerParameters.set(schema, parameters);
  }
  if (parameters.length === 0) return undefined;
  return Object.fromEntries(
    parameters.flatMap(({ path, header }) => {
      const value = path.reduce<unknown>(
        (at, key) => (isRecord(at) && Object.hasOwn(at, key) ? at[key] : undefined),
        input,
      );
      if (!["string", "number", "boolean"].includes(typeof value)) return [];
      return [[`Mcp-Param-${header}`, headerValue(String(value))]];
    }),
  );
}

/** Only properties that every call reaches the same way: not those inside lists and alternatives. */
function parametersOf(schema: Message, path: readonly string[]): HeaderParameter[] {
  const header = schema["x-mcp-header"];
  const isNamed = typeof header === "string" && headerName.test(header) && path.length > 0;
  const properties = isRecord(schema.properties) ? Object.entries(schema.properties) : [];
  return [
    ...(isNamed ? [{ path, header }] : []),
    ...properties.flatMap(([key, part]) => (isRecord(part) ? parametersOf(part, [...path, key]) : [])),
  ];
}

/** What a header cannot hold as it is goes as base64, marked as the protocol says. */
export function headerValue(value: string): string {
  const isPlain = /^[\t\x20-\x7E]+$/.test(value) && value === value.trim() && !value.startsWith("=?base64?");
  return isPlain ? value : `=?base64?${Buffer.from(value, "utf8").toString("base64")}?=`;
}
