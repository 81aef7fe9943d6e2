import { AsyncLocalStorage } from "node:async_hooks";
import {
  CLIENT_CAPABILITIES_META_KEY,
  CLIENT_INFO_META_KEY,
  type JSONRPCMessage,
  LOG_LEVEL_META_KEY,
  PROTOCOL_VERSION_META_KEY,
  SERVER_INFO_META_KEY,
  type Transport,
} from "@modelcontextprotocol/client";
import type { CallClient, ProgressUpdate } from "@toolrack/core";
import { capabilitiesOf, isClientMethod } from "./ask-caller.ts";
import { UpstreamError } from "./upstream-error.ts";

/** A request to an upstream server. */
export interface LaneRequest {
  readonly method: string;
  readonly params: Readonly<Record<string, unknown>>;
  /** Gives up the request, here and there. */
  readonly signal?: AbortSignal | undefined;
  /** In milliseconds. Without it, only the signal ends the waiting. */
  readonly timeout?: number;
  /** Whom the server's own questions reach while it works on this. */
  readonly client?: CallClient | undefined;
  readonly onProgress?: (update: ProgressUpdate) => void;
}

export interface LaneOptions {
  readonly transport: Transport;
  /** The version, when the server speaks the stateless protocol; everything is then said with every request. */
  readonly modern: string | undefined;
  readonly clientInfo: object;
  /** Answers `roots/list` where no caller can. */
  readonly roots: readonly object[];
  /** Is told what a server logs. */
  readonly onLog: (params: Readonly<Record<string, unknown>>) => void;
}

interface Pending {
  readonly request: LaneRequest;
  readonly resolve: (result: unknown) => void;
  readonly reject: (reason: unknown) => void;
  readonly release: () => void;
}

type Message = Readonly<Record<string, unknown>>;

/** Ids of the SDK's own requests on the same transport begin at 0. */
const FIRST_ID = 1_000_000_000;
const MOST_ROUNDS = 10;

/**
 * Requests to an upstream server, written straight onto the transport of a connected SDK client. The SDK validates every
 * message several times over; what passes through a rack is validated by those at its ends. Also brings a server's
 * questions to the caller whose request caused them, in both eras of the protocol.
 */
export class RequestLane {
  readonly #options: LaneOptions;
  readonly #pending = new Map<number, Pending>();
  /** Questions of the server that are being answered, by its ids. */
  readonly #questions = new Map<unknown, AbortController>();
  /** Which request a message belongs to, where every request has a stream of its own. */
  readonly #scope: AsyncLocalStorage<Pending> | undefined;
  #nextId = FIRST_ID;
  #closed: Error | undefined;
  /** The server has asked something outside a stream: from then on callers that can be asked take turns. */
  #asks = false;
  #turn: Promise<void> = Promise.resolve();

  /** The client must be connected: from here on the lane sees every message first. */
  constructor(options: LaneOptions) {
    this.#options = options;
    const { transport } = options;
    this.#scope = transport.hasPerRequestStream === true ? new AsyncLocalStorage() : undefined;
    const others = transport.onmessage;
    transport.onmessage = (message, extra) => {
      if (!this.#take(message as Message)) others?.(message, extra);
    };
  }

  get inFlight(): number {
    return this.#pending.size;
  }

  /** Resolves with the result as the server gave it. Rejects with `UpstreamError`, or with the signal's reason. */
  request(request: LaneRequest): Promise<unknown> {
    if (this.#asks && request.client !== undefined) return this.#inTurn(request);
    return this.#run(request);
  }

  /** Everything that waits fails now. */
  close(reason: Error): void {
    this.#closed = reason;
    for (const pending of [...this.#pending.values()]) {
      pending.release();
      pending.reject(reason);
    }
    this.#pending.clear();
    for (const question of this.#questions.values()) question.abort(reason);
    this.#questions.clear();
  }

  #run(request: LaneRequest): Promise<unknown> {
    const answer = this.#exchange(request, request.params);
    if (this.#options.modern === undefined) return answer;
    return answer.then((result) => (isInputRequired(result) ? this.#goOn(request, result) : plain(result)));
  }

  /** One after the other, so that a question can only belong to one of them. */
  async #inTurn(request: LaneRequest): Promise<unknown> {
    const before = this.#turn;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#turn = before.then(() => promise);
    await before;
    try {
      return await this.#run(request);
    } finally {
      resolve();
    }
  }

  /** The stateless protocol's way of asking: the server ends the request, and is sent it again with the answers. */
  async #goOn(request: LaneRequest, first: Message): Promise<unknown> {
    let result = first;
    for (let round = 0; round < MOST_ROUNDS; round++) {
      const { inputRequests, requestState } = result;
      const asked = isRecord(inputRequests) ? Object.entries(inputRequests) : [];
      const answers = await Promise.all(
        asked.map(async ([key, question]) => [key, await this.#answer(question, request)] as const),
      );
      const next = await this.#exchange(request, {
        ...request.params,
        ...(answers.length > 0 ? { inputResponses: Object.fromEntries(answers) } : {}),
        ...(requestState === undefined ? {} : { requestState }),
      });
      if (!isInputRequired(next)) return plain(next);
      result = next;
    }
    throw new UpstreamError(
      "refused",
      `The server asked ${MOST_ROUNDS} times in a row and never came to an answer.`,
    );
  }

  async #answer(question: unknown, { client, signal }: LaneRequest): Promise<unknown> {
    const { method, params } = isRecord(question) ? question : {};
    if (typeof method !== "string" || !isClientMethod(method)) {
      throw new UpstreamError(
        "refused",
        `The server asked for "${String(method)}", which nobody can be asked for.`,
      );
    }
    if (client?.can(method) !== true) {
      if (method === "roots/list") return { roots: this.#options.roots };
      throw new UpstreamError("refused", cannotAsk(method));
    }
    return client.request(method, isRecord(params) ? params : {}, signal ?? new AbortController().signal);
  }

  #exchange(request: LaneRequest, params: Readonly<Record<string, unknown>>): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const { signal, timeout, method } = request;
      if (this.#closed !== undefined) throw this.#closed;
      if (signal?.aborted) throw signal.reason;
      const id = this.#nextId++;
      const abort =
        this.#scope === undefined || this.#options.modern === undefined ? undefined : new AbortController();
      const giveUp = (reason: unknown) => {
        if (this.#settle(id) === undefined) return;
        if (abort === undefined) this.#sendCancel(id, reason);
        else abort.abort();
        reject(reason);
      };
      const onAbort = signal === undefined ? undefined : () => giveUp(signal.reason);
      const timer =
        timeout === undefined ? undefined : setTimeout(() => giveUp(timedOut(method, timeout)), timeout);
      const release = () => {
        if (onAbort !== undefined) signal?.removeEventListener("abort", onAbort);
        clearTimeout(timer);
      };
      if (onAbort !== undefined) signal?.addEventListener("abort", onAbort, { once: true });
      const pending: Pending = { request, resolve, reject, release };
      this.#pending.set(id, pending);
      const message = {
        jsonrpc: "2.0",
        id,
        method,
        params: this.#complete(request, params, id),
      } as JSONRPCMessage;
      const fail = (error: unknown) => {
        if (this.#settle(id) !== undefined) reject(toUpstreamError(error));
      };
      const send = () =>
        this.#options.transport
          .send(message, {
            ...(abort === undefined ? {} : { requestSignal: abort.signal }),
            onRequestStreamEnd: () =>
              fail(new UpstreamError("unavailable", "The server ended its answer before it was complete.")),
          })
          .catch(fail);
      if (this.#scope === undefined) void send();
      else void this.#scope.run(pending, send);
    });
  }

  #complete(
    { client, onProgress }: LaneRequest,
    params: Readonly<Record<string, unknown>>,
    id: number,
  ): Readonly<Record<string, unknown>> {
    const { modern, clientInfo } = this.#options;
    if (modern === undefined && onProgress === undefined) return params;
    const meta = isRecord(params._meta) ? params._meta : {};
    return {
      ...params,
      _meta: {
        ...meta,
        ...(onProgress === undefined ? {} : { progressToken: id }),
        ...(modern === undefined
          ? {}
          : {
              [PROTOCOL_VERSION_META_KEY]: modern,
              [CLIENT_INFO_META_KEY]: clientInfo,
              [CLIENT_CAPABILITIES_META_KEY]: capabilitiesOf(client),
              // Without it a server says nothing, and then a caller who listens hears nothing.
              ...(client === undefined ? {} : { [LOG_LEVEL_META_KEY]: "info" }),
            }),
      },
    };
  }

  #sendCancel(id: number, reason: unknown): void {
    const text = reason instanceof Error ? reason.message : String(reason ?? "cancelled");
    const params = this.#options.modern === undefined ? {} : { _meta: this.#envelope() };
    const message = {
      jsonrpc: "2.0",
      method: "notifications/cancelled",
      params: { ...params, requestId: id, reason: text },
    } as JSONRPCMessage;
    this.#options.transport.send(message).catch(() => {});
  }

  #envelope(): object {
    const { modern, clientInfo } = this.#options;
    return {
      [PROTOCOL_VERSION_META_KEY]: modern,
      [CLIENT_INFO_META_KEY]: clientInfo,
      [CLIENT_CAPABILITIES_META_KEY]: capabilitiesOf(undefined),
    };
  }

  #settle(id: number): Pending | undefined {
    const pending = this.#pending.get(id);
    if (pending === undefined) return undefined;
    this.#pending.delete(id);
    pending.release();
    return pending;
  }

  /** Says whether the message was for the lane. */
  #take(message: Message): boolean {
    const { id, method } = message;
    if (method === undefined)
      return typeof id === "number" && id >= FIRST_ID && this.#takeAnswer(id, message);
    if (typeof method !== "string") return false;
    if (id !== undefined) {
      if (this.#options.modern !== undefined || !isClientMethod(method)) return false;
      void this.#takeQuestion(id, method, isRecord(message.params) ? message.params : {});
      return true;
    }
    return this.#takeNotification(method, isRecord(message.params) ? message.params : {});
  }

  #takeAnswer(id: number, message: Message): boolean {
    // One that nobody waits for any more came too late.
    const pending = this.#settle(id);
    if (pending === undefined) return true;
    const { error } = message;
    if (error === undefined) pending.resolve(message.result);
    else pending.reject(refusal(error));
    return true;
  }

  #takeNotification(method: string, params: Message): boolean {
    if (method === "notifications/progress") {
      const token = Number(params.progressToken);
      if (!(token >= FIRST_ID)) return false;
      this.#pending.get(token)?.request.onProgress?.(toProgress(params));
      return true;
    }
    if (method === "notifications/cancelled") {
      const question = this.#questions.get(params.requestId);
      question?.abort(params.reason);
      return question !== undefined;
    }
    if (method === "notifications/message" || method === "notifications/elicitation/complete") {
      if (method === "notifications/message") this.#options.onLog(params);
      this.#callerOf(() => true)?.request.client?.notify(method, params);
      return true;
    }
    return false;
  }

  async #takeQuestion(id: unknown, method: Parameters<CallClient["can"]>[0], params: Message): Promise<void> {
    const reply = (answer: object) =>
      this.#options.transport.send({ jsonrpc: "2.0", id, ...answer } as JSONRPCMessage).catch(() => {});
    const pending = this.#callerOf((client) => client.can(method));
    const client = pending?.request.client;
    if (this.#scope?.getStore() === undefined && method !== "roots/list") this.#asks = true;
    if (client === undefined || !client.can(method)) {
      if (method === "roots/list") return void reply({ result: { roots: this.#options.roots } });
      return void reply({ error: { code: -32_601, message: cannotAsk(method) } });
    }
    const asking = new AbortController();
    this.#questions.set(id, asking);
    const signal = pending?.request.signal;
    try {
      const answer = await client.request(
        method,
        params,
        signal === undefined ? asking.signal : AbortSignal.any([asking.signal, signal]),
      );
      void reply({ result: answer });
    } catch (thrown) {
      const message = thrown instanceof Error ? thrown.message : String(thrown);
      void reply({ error: { code: -32_603, message } });
    } finally {
      this.#questions.delete(id);
    }
  }

  /**
   * The request that a message of the server belongs to: that of its stream, or the only one whose caller fits. Where
   * there are several, nobody is asked, because the question might reach the wrong person.
   */
  #callerOf(fits: (client: CallClient) => boolean): Pending | undefined {
    const own = this.#scope?.getStore();
    if (own !== undefined) return own;
    const candidates = [...this.#pending.values()].filter(
      ({ request: { client } }) => client !== undefined && fits(client),
    );
    return candidates.length === 1 ? candidates[0] : undefined;
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isInputRequired(result: unknown): result is Message {
  return isRecord(result) && result.resultType === "input_required";
}

/** What the stateless protocol adds to every result is about the transport and not about the result. */
function plain(result: unknown): unknown {
  if (!isRecord(result)) return result;
  const { resultType: _, _meta, ...rest } = result;
  if (!isRecord(_meta)) return rest;
  const { [SERVER_INFO_META_KEY]: _server, ...meta } = _meta;
  return Object.keys(meta).length === 0 ? rest : { ...rest, _meta: meta };
}

function toProgress({ progress, total, message }: Message): ProgressUpdate {
  return {
    progress: typeof progress === "number" ? progress : 0,
    ...(typeof total === "number" ? { total } : {}),
    ...(typeof message === "string" ? { message } : {}),
  };
}

function refusal(error: unknown): UpstreamError {
  const { code, message, data } = isRecord(error) ? error : {};
  return new UpstreamError(
    "refused",
    typeof message === "string" ? message : "The server refused and gave no reason.",
    {
      ...(typeof code === "number" ? { code } : {}),
      ...(data === undefined ? {} : { data }),
    },
  );
}

function timedOut(method: string, limit: number): UpstreamError {
  return new UpstreamError("timeout", `The server did not answer ${method} within ${limit} ms.`);
}

function cannotAsk(method: string): string {
  return `The caller of this tool cannot be asked (${method}). Call it from a client that answers such questions, or give what it needs as arguments.`;
}

/** What sending threw: mostly the HTTP status of an answer. */
export function toUpstreamError(error: unknown): UpstreamError {
  if (error instanceof UpstreamError) return error;
  const message = error instanceof Error ? error.message : String(error);
  const status = isRecord(error) ? error.status : undefined;
  if (status === 401 || status === 403) return new UpstreamError("unauthorized", message, { cause: error });
  // Servers that forgot a session should answer 404; several answer 400.
  if (status === 404 || (status === 400 && /session/i.test(message))) {
    return new UpstreamError("session", message, { cause: error });
  }
  return new UpstreamError(typeof status === "number" ? "refused" : "unavailable", message, { cause: error });
}
