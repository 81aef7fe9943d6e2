import { setTimeout as delay } from "node:timers/promises";
import type { CallClient } from "@toolrack/core";
import { asRecord, isRecord, PassingMap, reasonOf, whenAborted } from "../../../helpers/index.ts";
import {
  type ClientInfo,
  lists,
  metaKeys,
  modernVersion,
  rpcCodes,
  tasksExtension,
} from "../../wire/index.ts";
import { processEnded, UpstreamError } from "../failures.ts";
import { StdioTransport } from "../process/stdio-transport.ts";
import { refusal } from "./http-errors.ts";
import {
  type Message,
  routingHeaders,
  type Transport,
  type UpstreamRequest,
  type Verdict,
} from "./messages.ts";
import {
  answersTo,
  canBeAsked,
  capabilitiesOf,
  GivenUpRequests,
  isClientMethod,
  type QuestionOptions,
  ServerQuestions,
  Turns,
} from "./questions.ts";
import { type SessionListeners, Subscriptions } from "./subscriptions.ts";
import { plainResult, TASK_LIFE, TaskRuns } from "./task-runs.ts";

interface SessionOptions extends QuestionOptions {
  readonly transport: Transport;
  readonly clientInfo: ClientInfo;
  /** Called with each log message of the server. */
  readonly onLog: (params: Message) => void;
}

/** How a server describes itself in the handshake. */
export interface ServerProfile {
  readonly protocolVersion: string;
  readonly capabilities: Message;
  readonly serverInfo?: { readonly name: string; readonly version: string } | undefined;
  readonly instructions?: string | undefined;
}

interface Pending {
  readonly request: UpstreamRequest;
  readonly resolve: (result: unknown) => void;
  readonly reject: (reason: unknown) => void;
  /** Stops listening to the signal. */
  release: (() => void) | undefined;
  timer: NodeJS.Timeout | undefined;
}

const MOST_ROUNDS = 10;
const RETIRE_POLL = 100;
/**
 * How long a call waits for an earlier call whose caller can be asked, in milliseconds. After that both run at
 * the same time, and nobody can tell which of them a question of the server belongs to.
 */
const LONGEST_TURN = 30_000;

/** Requests during which a server may ask questions. */
const askingMethods: ReadonlySet<string> = new Set(["tools/call", "prompts/get", "resources/read"]);

const extensions = Object.freeze({ [tasksExtension]: {} });

/**
 * An open connection to an upstream server. Sends requests, and passes the server's questions to the caller
 * whose request caused them, in the older and in the stateless protocol.
 */
export class UpstreamSession {
  /** Set by the handshake, like `profile`. */
  verdict: Verdict;
  profile: ServerProfile = { protocolVersion: modernVersion, capabilities: {} };
  isClosed = false;
  readonly subscriptions = new Subscriptions(this);
  readonly #options: SessionOptions;
  readonly #transport: Transport;
  readonly #pending = new PassingMap<number, Pending>();
  readonly #questions: ServerQuestions;
  readonly #tasks: TaskRuns;
  readonly #turns = new Turns(LONGEST_TURN);
  readonly #givenUp = new GivenUpRequests();
  #listeners: SessionListeners | undefined;
  #nextId = 1;
  #closed: Error | undefined;

  /** `verdict.era` is the era of the protocol that the handshake begins with. */
  constructor(verdict: Verdict, options: SessionOptions) {
    this.verdict = verdict;
    this.#options = options;
    const { transport } = options;
    this.#transport = transport;
    this.#tasks = new TaskRuns({
      ...options,
      isModern: () => this.isModern,
      exchange: (request) =>
        this.isModern ? this.exchange(request).then(plainResult) : this.exchange(request),
      onGivenUp: (token) => this.#givenUp.add(token),
    });
    this.#questions = new ServerQuestions({
      ...options,
      ofTask: (params) => this.#tasks.requestFor(params),
      openRequests: () => [
        ...this.#tasks.requests,
        ...Array.from(this.#pending.entries.values(), ({ request }) => request).filter(isAsking),
        ...(this.#givenUp.isEmpty ? [] : ["given up" as const]),
      ],
      reply: (id, answer) => this.#post({ id, ...answer }),
    });
    transport.onmessage = (message, request) => this.#take(message, request);
    transport.onclose = () => this.#lose();
  }

  get isModern(): boolean {
    return this.verdict.era === "modern";
  }

  /** Undefined when the server is at an address. */
  get process(): StdioTransport | undefined {
    return this.#transport instanceof StdioTransport ? this.#transport : undefined;
  }

  /** Whether the server announces changes of all its lists, and we have a stream to receive them. */
  get tellsOfChanges(): boolean {
    return this.subscriptions.covers(this.#transport.isListening !== false);
  }

  /** Calls the listeners from now on. */
  follow(listeners: SessionListeners): void {
    this.#listeners = listeners;
  }

  /**
   * To be called when announcements of the server may have been missed. Reports a change, so that all lists are
   * read again.
   */
  missed(): void {
    this.#listeners?.onListChanged("tools");
  }

  /** Resolves with the server's result. Rejects with `UpstreamError`, or with the signal's reason. */
  request(request: UpstreamRequest): Promise<unknown> {
    if (!this.#questions.isAskedWithoutStream || !isAsking(request)) return this.#run(request);
    // A call whose caller can be asked runs alone, so that a question can only belong to it.
    return this.#turns.take(canBeAsked(request.client), () => this.#run(request), request.signal);
  }

  /** Sends a message that is no request. */
  notify(message: object): Promise<void> {
    return this.#transport.send({ jsonrpc: "2.0", ...message });
  }

  /** Sends a message that is no request, and ignores a failure. */
  #post(message: object): void {
    void this.notify(message).catch(() => {});
  }

  /** Uses the protocol of this verdict from now on. */
  agreeOn(verdict: Verdict, profile: ServerProfile): void {
    this.verdict = verdict;
    this.profile = profile;
    if (!this.isModern) this.#transport.protocolVersion = profile.protocolVersion;
  }

  /** Ends the connection, and the server's process with everything it started. */
  async close(reason: Error = new UpstreamError("unavailable", "Its connection was closed.")): Promise<void> {
    this.isClosed = true;
    this.#end(reason);
    await this.#transport.close().catch(() => {});
  }

  /** Ends the connection when all requests over it are answered. */
  async retire(): Promise<void> {
    this.subscriptions.close();
    while (this.#pending.entries.size + this.#tasks.size > 0 && !this.isClosed) await delay(RETIRE_POLL);
    await this.close();
  }

  #lose(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    const { ending, problem = "Its connection was closed." } = this.#transport;
    const reason = ending === undefined ? new UpstreamError("unavailable", problem) : processEnded(ending);
    this.#end(reason);
    this.#listeners?.onLost(reason);
    void this.#transport.close().catch(() => {});
  }

  /** Rejects all open requests. Nothing is sent after this. */
  #end(reason: Error): void {
    this.#closed = reason;
    this.subscriptions.close();
    const lost = new UpstreamError("lost", reason.message, { cause: reason });
    for (const [id] of this.#pending.entries) this.#settle(id)?.reject(lost);
    this.#tasks.close(lost);
    this.#questions.close(reason);
  }

  /** Whether the server can run calls as tasks. In the older protocol it declares this for each kind of request. */
  get #hasTasks(): boolean {
    const { extensions: known, tasks } = this.profile.capabilities;
    if (this.isModern) return asRecord(known)[tasksExtension] !== undefined;
    return asRecord(asRecord(asRecord(tasks).requests).tools).call !== undefined;
  }

  #run(request: UpstreamRequest): Promise<unknown> {
    if (!this.isModern)
      return request.isTask === true && this.#hasTasks ? this.#runAsTask(request) : this.exchange(request);
    return this.exchange(request).then((result) =>
      isOfType(result, "input_required")
        ? this.#answerQuestions(request, result)
        : this.#complete(request, result),
    );
  }

  /** Runs a call as a task in the older protocol, in which the client asks for the task. */
  async #runAsTask(request: UpstreamRequest): Promise<unknown> {
    const token = this.#nextId;
    const result = await this.exchange(request, { ...request.params, task: { ttl: TASK_LIFE } });
    const { task } = asRecord(result);
    return isRecord(task) ? this.#tasks.follow(task, request, token) : result;
  }

  #complete(request: UpstreamRequest, result: unknown): unknown {
    return isOfType(result, "task") && request.method === "tools/call"
      ? this.#tasks.follow(result, request)
      : plainResult(result);
  }

  /**
   * Answers the server's questions in the stateless protocol: the server ends the request with its questions,
   * and the request is sent again with the answers.
   */
  async #answerQuestions(request: UpstreamRequest, first: Message): Promise<unknown> {
    let result = first;
    for (let round = 0; round < MOST_ROUNDS; round++) {
      const { inputRequests, requestState } = result;
      const asked = Object.entries(asRecord(inputRequests));
      const inputResponses = asked.length > 0 ? await answersTo(asked, request, this.#options) : undefined;
      const next = await this.exchange(request, { ...request.params, inputResponses, requestState });
      if (!isOfType(next, "input_required")) return this.#complete(request, next);
      result = next;
    }
    const text = `The server asked ${MOST_ROUNDS} times in a row and never came to an answer.`;
    throw new UpstreamError("refused", text);
  }

  /** Sends a request once, and resolves with the result as the server sent it. */
  exchange(request: UpstreamRequest, params: Message = request.params): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const transport = this.#transport;
      const { timeout, method } = request;
      if (this.#closed !== undefined) throw this.#closed;
      const id = this.#nextId++;
      // In the stateless protocol, ending the stream of an answer cancels the request.
      const abort = transport.hasOwnAnswers && this.isModern ? new AbortController() : undefined;
      const fail = (error: unknown) => {
        if (this.#settle(id) !== undefined) reject(toUpstreamError(error));
      };
      let isSent = false;
      const giveUp = (reason: unknown) => {
        if (this.#settle(id) === undefined) return;
        if (abort !== undefined) abort.abort();
        else if (isSent) this.#cancel(id, method, reason);
        reject(reason);
      };
      const pending: Pending = { request, resolve, reject, release: undefined, timer: undefined };
      this.#pending.set(id, pending);
      pending.release = whenGivenUp(request, giveUp);
      if (!this.#pending.entries.has(id)) return;
      if (timeout !== undefined) {
        const text = `The server did not answer ${method} within ${timeout} ms.`;
        pending.timer = setTimeout(() => giveUp(new UpstreamError("timeout", text)), timeout);
      }
      isSent = true;
      const message = { jsonrpc: "2.0", id, method, params: this.#withMeta(request, params, id) };
      if (!transport.hasOwnAnswers) transport.send(message).catch(fail);
      else {
        const headers = this.isModern ? routingHeaders(modernVersion, request) : request.headers;
        transport.send(message, { request, signal: abort?.signal, headers }).catch(fail);
      }
    });
  }

  /** Tells the server to stop. It may not do so at once, and may still ask questions about this request. */
  #cancel(requestId: number, method: string, reason: unknown): void {
    if (askingMethods.has(method)) this.#givenUp.add(requestId);
    const meta = this.isModern ? { _meta: this.#statelessMeta(undefined, false) } : {};
    const params = { ...meta, requestId, reason: reasonOf(reason ?? "cancelled") };
    this.#post({ method: "notifications/cancelled", params });
  }

  /** Adds to the parameters the `_meta` that the protocol wants. */
  #withMeta({ client, onLog, onProgress }: UpstreamRequest, params: Message, id: number): Message {
    const progress = onProgress === undefined ? undefined : { progressToken: id };
    if (!this.isModern && progress === undefined) return params;
    if (!this.isModern && params._meta === undefined) return { ...params, _meta: progress };
    const wantsLog = client !== undefined || onLog !== undefined;
    const stateless = this.isModern ? this.#statelessMeta(client, wantsLog) : {};
    return { ...params, _meta: { ...asRecord(params._meta), ...progress, ...stateless } };
  }

  /** The description of the client that the stateless protocol wants with every message. */
  #statelessMeta(client: CallClient | undefined, wantsLog: boolean): object {
    const capabilities = capabilitiesOf(client);
    // Call records and the server's log need `info`, even if the caller wants less; what the caller gets is
    // filtered later. Without a level a server logs nothing.
    const level = client?.logLevel === "debug" ? "debug" : "info";
    return {
      [metaKeys.version]: modernVersion,
      [metaKeys.client]: this.#options.clientInfo,
      [metaKeys.capabilities]: this.#hasTasks ? { ...capabilities, extensions } : capabilities,
      ...(wantsLog ? { [metaKeys.logLevel]: level } : {}),
    };
  }

  #settle(id: number): Pending | undefined {
    const pending = this.#pending.entries.get(id);
    if (pending === undefined) return undefined;
    this.#pending.entries.delete(id);
    pending.release?.();
    if (pending.timer !== undefined) clearTimeout(pending.timer);
    return pending;
  }

  /** `own`: the request with whose own answer the message came; undefined when requests share a stream. */
  #take(message: Message, own: UpstreamRequest | undefined): void {
    const { id, method } = message;
    const params = asRecord(message.params);
    if (method === undefined) {
      if (typeof id === "number") this.#takeAnswer(id, message);
    } else if (id === undefined) this.#takeNotification(String(method), params, own);
    else if (!this.isModern && isClientMethod(method)) void this.#questions.take(id, method, params, own);
    else {
      const error = { code: rpcCodes.methodNotFound, message: "Method not found" };
      this.#post({ id, ...(method === "ping" ? { result: {} } : { error }) });
    }
  }

  #takeAnswer(id: number, { error, result }: Message): void {
    this.#givenUp.delete(id);
    const pending = this.#settle(id);
    if (pending === undefined) this.#cancelTask(result);
    else if (error !== undefined && error !== null) pending.reject(refusal(error));
    else if (isRecord(result)) pending.resolve(result);
    else {
      const text = "The server answered with neither a result nor an error.";
      pending.reject(new UpstreamError("broken", text));
    }
  }

  /** Cancels a task that the server started for a call that was given up. */
  #cancelTask(result: unknown): void {
    const { resultType, task } = asRecord(result);
    const { taskId } = asRecord(resultType === "task" ? result : task);
    if (typeof taskId === "string") this.#tasks.cancel(taskId);
  }

  #takeNotification(method: string, params: Message, own: UpstreamRequest | undefined): void {
    switch (method) {
      case "notifications/resources/updated":
        if (typeof params.uri === "string") this.#listeners?.onResourceUpdated(params.uri);
        return;
      case "notifications/progress": {
        const { progress, total, message } = params;
        const token = Number(params.progressToken);
        const request = this.#pending.entries.get(token)?.request ?? this.#tasks.reportedBy(token);
        request?.onProgress?.({
          progress: typeof progress === "number" ? progress : 0,
          ...(typeof total === "number" ? { total } : {}),
          ...(typeof message === "string" ? { message } : {}),
        });
        return;
      }
      case "notifications/cancelled":
        this.#questions.withdraw(params.requestId, params.reason);
        // With this message, a server may also end a subscription, which is an open request of ours.
        this.#settle(Number(params.requestId))?.reject(
          new UpstreamError("refused", "The server cancelled it."),
        );
        return;
      case "notifications/subscriptions/acknowledged": {
        const id = Number(asRecord(params._meta)[metaKeys.subscription]);
        this.#pending.entries.get(id)?.request.onAcknowledged?.(params.notifications);
        return;
      }
      case "notifications/message": {
        this.#options.onLog(params);
        const request = this.#questions.currentRequest(own);
        request?.client?.notify(method, params);
        request?.onLog?.(params);
        return;
      }
      case "notifications/elicitation/complete":
        this.#questions.currentRequest(own)?.client?.notify(method, params);
        return;
      default: {
        const changed = lists.find((list) => method === `notifications/${list}/list_changed`);
        if (changed !== undefined) this.#listeners?.onListChanged(changed);
      }
    }
  }
}

function isAsking({ method }: Pick<UpstreamRequest, "method">): boolean {
  return askingMethods.has(method);
}

/** Turns anything that sending threw into an `UpstreamError`. */
function toUpstreamError(thrown: unknown): UpstreamError {
  if (thrown instanceof UpstreamError) return thrown;
  return new UpstreamError("unavailable", reasonOf(thrown), { cause: thrown });
}

/**
 * Whether a result of the stateless protocol has this type. `input_required`: it asks questions. `task`: it
 * names a task. Neither is the final result.
 */
function isOfType(result: unknown, type: "input_required" | "task"): result is Message {
  return isRecord(result) && result.resultType === type;
}

/**
 * Calls `act` when the request is given up, or at once if it was already. Returns a function that stops
 * listening.
 */
function whenGivenUp(request: UpstreamRequest, act: (reason: unknown) => void): (() => void) | undefined {
  if (request.whenAborted !== undefined) return request.whenAborted(act);
  const { signal } = request;
  return signal && whenAborted(signal, () => act(signal.reason));
}
