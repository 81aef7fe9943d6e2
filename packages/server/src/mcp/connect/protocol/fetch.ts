import { AsyncLocalStorage } from "node:async_hooks";
import {
  CLIENT_CAPABILITIES_META_KEY,
  CLIENT_INFO_META_KEY,
  LOG_LEVEL_META_KEY,
  PROTOCOL_VERSION_META_KEY,
} from "@modelcontextprotocol/client";
import {
  type CallClient,
  type LogLevel,
  logLine,
  type ProgressUpdate,
  type ToolContext,
  waitingForTurn,
  whenAborted,
} from "@toolrack/core";
import { approvalMark } from "../../../calls/index.ts";
import { isRecord, unlessAborted } from "../../../helpers/index.ts";
import type { UpstreamTool } from "../catalogue/catalogue.ts";
import { UpstreamError } from "./failures.ts";
import type { Message } from "./json-rpc.ts";
import { capabilitiesOf } from "./questions.ts";
import type { LaneRequest } from "./requests.ts";
import { TASKS_EXTENSION } from "./task-runs.ts";

/** A message that is longer is no message. */
export const LONGEST_MESSAGE = 64 * 1024 * 1024;

export type Fetch = (input: string | URL, init?: RequestInit) => Promise<Response>;

/**
 * A fetch whose answers end with an error once they are larger than `limit` bytes. Of a stream of events, which may go
 * on for ever, each event is measured for itself. `onTooLarge` is for who shares one stream between all answers: then it
 * cannot be told which of them it was.
 */
export function boundedFetch(limit: number, onTooLarge: (error: UpstreamError) => void = () => {}): Fetch {
  return async (input, init) => {
    const response = await fetch(input, init);
    const { body, headers, status, statusText } = response;
    // A redirect that is not followed has no status at all, and nothing to read.
    if (body === null || status < 200) return response;
    if (isKnownSmall(headers, limit)) return response;
    const isStream = headers.get("content-type")?.startsWith("text/event-stream") === true;
    const measure = isStream ? eventMeter() : meter();
    const measured = body.pipeThrough(
      new TransformStream<Uint8Array, Uint8Array>({
        transform(piece, controller) {
          if (measure(piece) <= limit) {
            controller.enqueue(piece);
            return;
          }
          const error = tooLarge(limit);
          controller.error(error);
          onTooLarge(error);
        },
      }),
    );
    const bounded = new Response(measured, { status, statusText, headers });
    // What is made by hand has no address, and redirects are judged by it.
    Object.defineProperty(bounded, "url", { value: response.url });
    return bounded;
  };
}

/** What is said of an answer that was too large, when that is what the error is about. */
export function tooLargeIn(error: unknown): string | undefined {
  const message = error instanceof Error ? error.message : String(error);
  return /The server's answer is larger than .*$/.exec(message)?.[0];
}

/** The length of what was packed says nothing about what it becomes. */
function isKnownSmall(headers: Headers, limit: number): boolean {
  const length = headers.get("content-length");
  return length !== null && !headers.has("content-encoding") && Number(length) <= limit;
}

/** Says how large the message is so far. */
type Meter = (piece: Uint8Array) => number;

function meter(): Meter {
  let size = 0;
  return (piece) => {
    size += piece.byteLength;
    return size;
  };
}

/** Events end with an empty line. */
function eventMeter(): Meter {
  let size = 0;
  return (piece) => {
    const bytes = Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength);
    const end = Math.max(bytes.lastIndexOf("\n\n"), bytes.lastIndexOf("\n\r\n"), bytes.lastIndexOf("\r\r"));
    // An empty line that is cut in two pieces is missed; the next one is not.
    size = end === -1 ? size + bytes.length : bytes.length - end;
    return size;
  };
}

function tooLarge(limit: number): UpstreamError {
  const size = limit >= 1024 * 1024 ? `${Math.floor(limit / 1024 / 1024)} MB` : `${limit} bytes`;
  return new UpstreamError(
    "broken",
    `The server's answer is larger than ${size} and was not read to its end. Ask for less at one time.`,
  );
}

/** An argument that the stateless protocol wants repeated as a header of the HTTP request. */
interface HeaderParameter {
  readonly path: readonly string[];
  readonly header: string;
}

type Schema = Readonly<Record<string, unknown>>;

/** What the name of a header can be made of. */
const token = /^[\w!#$%&'*+.^`|~-]+$/;

const known = new WeakMap<object, readonly HeaderParameter[]>();

/** The headers that a tool's schema asks for with `x-mcp-header`; undefined when it asks for none. */
export function parameterHeaders(schema: Schema, input: unknown): Record<string, string> | undefined {
  let parameters = known.get(schema);
  if (parameters === undefined) {
    parameters = parametersOf(schema, []);
    known.set(schema, parameters);
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
function parametersOf(schema: Schema, path: readonly string[]): HeaderParameter[] {
  const header = schema["x-mcp-header"];
  const own = typeof header === "string" && token.test(header) && path.length > 0 ? [{ path, header }] : [];
  const properties = isRecord(schema.properties) ? Object.entries(schema.properties) : [];
  return [
    ...own,
    ...properties.flatMap(([key, part]) => (isRecord(part) ? parametersOf(part, [...path, key]) : [])),
  ];
}

/** What a header cannot hold as it is goes as base64, marked as the protocol says. */
export function headerValue(value: string): string {
  const isPlain = /^[\t\x20-\x7E]+$/.test(value) && value === value.trim() && !value.startsWith("=?base64?");
  return isPlain ? value : `=?base64?${Buffer.from(value, "utf8").toString("base64")}?=`;
}

export interface EnvelopeOptions {
  /** The version, when the server speaks the stateless protocol; everything is then said with every request. */
  readonly modern: string | undefined;
  readonly clientInfo: object;
  /** The server can work on calls as tasks. */
  readonly hasTasks: boolean;
}

/** What is said with every message, beside what it is about. */
export class Envelope {
  readonly #options: EnvelopeOptions;

  constructor({ modern, clientInfo, hasTasks }: EnvelopeOptions) {
    this.#options = { modern, clientInfo, hasTasks };
  }

  /** The parameters of a request as they are sent under this id. */
  around(request: LaneRequest, params: Message, id: number): Message {
    const { modern } = this.#options;
    const hears = request.onProgress !== undefined;
    if (modern === undefined && !hears) return params;
    if (modern === undefined && params._meta === undefined)
      return { ...params, _meta: { progressToken: id } };
    return {
      ...params,
      _meta: {
        ...(isRecord(params._meta) ? params._meta : {}),
        ...(hears ? { progressToken: id } : {}),
        ...(modern === undefined ? {} : this.#stateless(request.client, hearsLog(request))),
      },
    };
  }

  /** What the parameters of a notification have to have. */
  get ofNotice(): Message {
    return this.#options.modern === undefined ? {} : { _meta: this.#stateless(undefined, false) };
  }

  /** What the stateless protocol wants said with every message. */
  #stateless(client: CallClient | undefined, isHeard: boolean): object {
    const { modern, clientInfo, hasTasks } = this.#options;
    const capabilities = capabilitiesOf(client);
    return {
      [PROTOCOL_VERSION_META_KEY]: modern,
      [CLIENT_INFO_META_KEY]: clientInfo,
      [CLIENT_CAPABILITIES_META_KEY]: hasTasks ? { ...capabilities, extensions } : capabilities,
      // Without it a server says nothing, and then whoever listens hears nothing.
      ...(isHeard ? { [LOG_LEVEL_META_KEY]: levelFor(client) } : {}),
    };
  }
}

const extensions = Object.freeze({ [TASKS_EXTENSION]: {} });

function hearsLog({ client, onLog }: LaneRequest): boolean {
  return client !== undefined || onLog !== undefined;
}

/**
 * From which level on the server is to say what it logs. The record of a call and the server's own log begin at `info`,
 * also when the caller wants less: what is too little for a caller is kept from it where it is told.
 */
function levelFor(client: CallClient | undefined): "debug" | "info" {
  return client?.logLevel === "debug" ? "debug" : "info";
}

/** A call of a tool as a request to its server. What few requests need is made when it is asked for. */
export class ToolRequest implements LaneRequest {
  readonly method = "tools/call";
  readonly params: Message;
  readonly headers: Readonly<Record<string, string>> | undefined;
  readonly isTask: boolean;
  readonly admit: () => void;
  readonly #context: ToolContext;
  #client: CallClient | undefined;

  constructor(
    { name, isTask }: Pick<UpstreamTool, "name" | "isTask">,
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

/**
 * The caller as a server may ask it. Where another rack asks whether a call may run, the answer is an approval, which not
 * every caller may give: it is asked for as one of this rack, of whoever may give it here.
 */
function withApprovalsHere(client: CallClient, { ask }: ToolContext): CallClient {
  // The question arrives with a message of the server; who is asked is found by the call that it is about.
  const duringCall = AsyncLocalStorage.snapshot();
  return {
    ...(client.name === undefined ? {} : { name: client.name }),
    get logLevel() {
      return client.logLevel;
    },
    can: (method, params) => client.can(method, params),
    notify: (method, params) => client.notify(method, params),
    async request(method, params, signal) {
      const { _meta, message } = params as { _meta?: Message; message?: unknown };
      if (_meta?.[approvalMark] === undefined) return client.request(method, params, signal);
      const asked = duringCall(() => ask(String(message))).then(
        () => ({ action: "accept", content: { approve: true } }),
        (thrown: Error) => ({ action: "accept", content: { approve: false, reason: thrown.message } }),
      );
      await unlessAborted(asked, signal);
      return asked;
    },
  };
}

/** Those of the protocol that are not `info` here. */
const levels: ReadonlyMap<unknown, LogLevel> = new Map([
  ["debug", "debug"],
  ["warning", "warn"],
  ["error", "error"],
  ["critical", "error"],
  ["alert", "error"],
  ["emergency", "error"],
]);
