import { AsyncLocalStorage } from "node:async_hooks";
import type { CallClient, LogLevel, ProgressUpdate, ToolContext } from "@toolrack/core";
import { logLine, waitingForTurn, whenAborted } from "@toolrack/core/internal";
import { approvalMark } from "../../../calls/index.ts";
import { isRecord, unlessAborted } from "../../../helpers/index.ts";
import { encodeHeader, type HeaderParameter, headerParameters, repeatedValue } from "../../wire/index.ts";
import { fingerprintOf, type ServerEntry } from "../config/entry.ts";
import type { ProcessEnd } from "../failures.ts";

/** A message from a server, or a part of one, unchecked. */
export type Message = Readonly<Record<string, unknown>>;

/** A request to an upstream server. */
export interface UpstreamRequest {
  readonly method: string;
  readonly params: Message;
  /** When it aborts, the request is given up and the server is told to stop. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Calls `act` when the request is given up. Cheaper than `signal`, which is created only when it is read.
   * Returns a function that stops listening.
   */
  readonly whenAborted?: (act: (reason: unknown) => void) => () => void;
  /** How long to wait for the answer, in milliseconds. When undefined, only the signal ends the wait. */
  readonly timeout?: number;
  /** Answers the server's questions about this request. */
  readonly client?: CallClient | undefined;
  readonly onProgress?: (update: ProgressUpdate) => void;
  /** Called with log messages of the server about this request. */
  readonly onLog?: (params: Message) => void;
  /** Called when the request starts to wait for its turn. Returns a function to call when its turn comes. */
  readonly waitingForTurn?: () => () => void;
  /** Called each time right before sending. Throws when the tool is no longer what a person approved. */
  readonly admit?: () => void;
  /** Further HTTP headers. Only for servers at an address. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Sent as the header Mcp-Name, by which a gateway routes the request. Default: the name or address in `params`. */
  readonly routingName?: string;
  /** For `subscriptions/listen`: called with what the server agreed to announce. */
  readonly onAcknowledged?: (notifications: unknown) => void;
  /** The server runs this tool only as a task. */
  readonly isTask?: boolean;
}

export interface SendOptions {
  /** The request that is sent. Messages on the stream of its answer belong to it. */
  readonly request: UpstreamRequest;
  /** When it aborts, the answer is not read any further. */
  readonly signal?: AbortSignal | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

/** Carries messages between the rack and one server. */
export interface Transport {
  /**
   * Called with each message of the server, and with the request with whose own answer it came, if it came with one.
   */
  onmessage?: ((message: Message, request?: UpstreamRequest) => void) | undefined;
  /** Called once, when the connection has ended, also by `close`. */
  onclose?: (() => void) | undefined;
  /** The version of the protocol. Once set, it is sent as a header with every request, if the transport has headers. */
  protocolVersion?: string | undefined;
  /** Whether each request has an answer of its own; all messages in that answer belong to the request. */
  readonly hasOwnAnswers?: boolean;
  /** Whether there is a stream for the server's own messages. Undefined: messages of all kinds share one stream. */
  readonly isListening?: boolean;
  /** How the server's process ended, if it has. */
  readonly ending?: ProcessEnd | undefined;
  /** Why the connection ended although we did not close it, if known. */
  readonly problem?: string | undefined;
  start(): Promise<void>;
  /** Rejects with an `UpstreamError`. With `hasOwnAnswers` it resolves only when the request was answered. */
  send(message: object, options?: SendOptions): Promise<void>;
  close(): Promise<void>;
}

/**
 * Which protocol and transport a server speaks. `modern`: the stateless protocol, in which every request
 * describes its client. `legacy`: the older protocol, which begins with `initialize`. Stored, so that this need
 * not be found out at every start.
 */
export interface Verdict {
  readonly era: "modern" | "legacy";
  /** How a server of the stateless protocol describes itself. */
  readonly discover?: Message | undefined;
  readonly transport: "stdio" | "http" | "sse" | "api";
  /** When this was found out, in milliseconds since the epoch. */
  readonly at: number;
  /** The `fingerprintOf` the entry. */
  readonly fingerprint: string;
}

const DAY = 24 * 60 * 60_000;

/** Returns the verdict unless it is about another server or out of date: a legacy server may have been updated since. */
export function validVerdict(verdict: Verdict | undefined, entry: ServerEntry): Verdict | undefined {
  if (verdict === undefined || verdict.fingerprint !== fingerprintOf(entry)) return undefined;
  const isStale = verdict.era === "legacy" ? Date.now() - verdict.at > DAY : verdict.discover === undefined;
  return isStale ? undefined : verdict;
}

/** A call of a tool as a request to its server. Rarely needed parts are made on demand. */
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
    this.#client = canAsk ? withLocalApprovals(client, this.#context) : client;
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
    logLine(this.#context, levelOf(level), ...name, data);
  }
}

function levelOf(level: unknown): LogLevel {
  if (level === "debug") return "debug";
  if (level === "warning") return "warn";
  return ["error", "critical", "alert", "emergency"].includes(String(level)) ? "error" : "info";
}

/**
 * The caller's client, except for approvals. When another rack asks whether a call may run, not every caller may answer
 * that. So the question becomes an approval of this rack, answered by somebody who may approve here.
 */
function withLocalApprovals(client: CallClient, { ask }: ToolContext): CallClient {
  // A question arrives outside the call's async context, but `ask` needs that context to find the person.
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

const parametersBySchema = new WeakMap<object, readonly HeaderParameter[]>();

/** The headers that a tool's schema asks for with `x-mcp-header`; undefined when it asks for none. */
export function parameterHeaders(schema: Message, input: unknown): Record<string, string> | undefined {
  const parameters = parametersBySchema.get(schema) ?? headerParameters(schema);
  parametersBySchema.set(schema, parameters);
  if (parameters.length === 0) return undefined;
  const headers = parameters.flatMap((parameter) => {
    const { name } = parameter;
    const value = repeatedValue(parameter, input);
    return name === undefined || value === undefined ? [] : [[name, encodeHeader(String(value))]];
  });
  return Object.fromEntries(headers);
}

const headerTypes: ReadonlySet<unknown> = new Set(["string", "integer", "boolean"]);

/**
 * Why a tool at an address cannot be called because of an `x-mcp-header` in its schema; undefined if it can. The protocol
 * wants such tools left out.
 */
export function headerProblem(schema: Message): string | undefined {
  const taken = new Set<string>();
  for (const { path, header, type, name } of headerParameters(schema)) {
    const where = `The x-mcp-header of its argument ${path.join(".")}`;
    if (name === undefined) return `${where} is no name of a header: ${JSON.stringify(header)}.`;
    const types = [type].flat().filter((one) => one !== "null");
    if (types.length === 0 || !types.every((one) => headerTypes.has(one)))
      return `${where} needs an argument that is a string, an integer or a boolean.`;
    if (taken.has(name)) return `${where} is that of another argument, too: ${header}.`;
    taken.add(name);
  }
  return undefined;
}

/** The headers by which a gateway routes a request of the stateless protocol. */
export function routingHeaders(version: string, request: UpstreamRequest): Record<string, string> {
  const { method, params, routingName = params.name ?? params.uri } = request;
  const headers = { ...request.headers, "mcp-protocol-version": version, "mcp-method": method };
  return typeof routingName === "string" ? { ...headers, "mcp-name": encodeHeader(routingName) } : headers;
}
