import type { AsyncLocalStorage } from "node:async_hooks";
import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/client";
import type { CallClient } from "@toolrack/core";
import { isRecord, reasonOf } from "../../../helpers/index.ts";
import { metaKeys, tasksExtension } from "../../wire/index.ts";
import { UpstreamError } from "../failures.ts";
import { onlyAccepted, tooLargeIn } from "./http.ts";
import type { Message, OpenRequest, UpstreamRequest } from "./messages.ts";
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
import { refusal, toUpstreamError } from "./sdk-errors.ts";
import { plainResult, TASK_LIFE, TaskRuns } from "./task-runs.ts";

interface RequesterOptions extends QuestionOptions {
  readonly transport: Transport;
  /** Says which request a message belongs to, if every request has its own stream. */
  readonly scope: AsyncLocalStorage<OpenRequest> | undefined;
  /** The version, if the server speaks the stateless protocol, where every request describes its client. */
  readonly modern: string | undefined;
  readonly clientInfo: object;
  /** Whether the server can run calls as tasks. */
  readonly hasTasks: boolean;
  /** Called with each log message of the server. */
  readonly onLog: (params: Message) => void;
}

interface Pending extends OpenRequest {
  readonly resolve: (result: unknown) => void;
  readonly reject: (reason: unknown) => void;
  /** Stops listening to the signal. */
  release: (() => void) | undefined;
  timer: NodeJS.Timeout | undefined;
}

/** The SDK's own requests on the same transport have ids from 0. */
const FIRST_ID = 1_000_000_000;
const MOST_ROUNDS = 10;

/** How long a call waits for an earlier one whose caller may be asked. After that, questions cannot be assigned to a call. */
const LONGEST_TURN = 30_000;

/** Requests during which a server may ask questions. */
const askingMethods: ReadonlySet<string> = new Set(["tools/call", "prompts/get", "resources/read"]);

const extensions = Object.freeze({ [tasksExtension]: {} });

/**
 * Sends requests to an upstream server, directly on the transport of a connected SDK client. The SDK would validate every
 * message several times; the server and the caller validate them anyway. In both eras it also passes the server's
 * questions to the caller whose request caused them.
 */
export class Requester {
  readonly #options: RequesterOptions;
  readonly #pending = new Map<number, Pending>();
  readonly #questions: ServerQuestions;
  readonly #tasks: TaskRuns;
  readonly #turns = new Turns(LONGEST_TURN);
  readonly #givenUp = new GivenUpRequests();
  #nextId = FIRST_ID;
  #closed: Error | undefined;

  /** The client must be connected. From now on the requester sees every message before the SDK. */
  constructor(options: RequesterOptions) {
    this.#options = options;
    const { server, roots, questionTimeout, transport, scope, modern } = options;
    this.#tasks = new TaskRuns({
      server,
      roots,
      questionTimeout,
      isModern: modern !== undefined,
      exchange: async (request) => {
        const result = await this.#exchange(request, request.params);
        return modern === undefined ? result : plainResult(result);
      },
      onGivenUp: (token) => {
        if (token !== undefined) this.#givenUp.add(token);
      },
    });
    this.#questions = new ServerQuestions({
      server,
      roots,
      questionTimeout,
      current: () => scope?.getStore()?.request,
      ofTask: (params) => this.#tasks.requestFor(params),
      openRequests: () => [
        ...this.#tasks.requests,
        ...[...this.#pending.values()]
          .map(({ request }) => request)
          .filter(({ method }) => askingMethods.has(method)),
        ...(this.#givenUp.isEmpty ? [] : ["given up" as const]),
      ],
      reply: (id, answer) => this.#send({ id, ...answer }),
    });
    const { onmessage, onerror } = transport;
    transport.onmessage = (message, extra) => {
      // A server may send anything, whatever the type says.
      if (!this.#take(message as unknown as Message)) onmessage?.(message, extra);
    };
    transport.onerror = (error) => {
      const openRequest = scope?.getStore();
      const problem = tooLargeIn(error);
      if (openRequest !== undefined && problem !== undefined) openRequest.problem = problem;
      onerror?.(error);
    };
  }

  get inFlight(): number {
    return this.#pending.size + this.#tasks.size;
  }

  /** Resolves with the server's result. Rejects with `UpstreamError`, or with the signal's reason. */
  request(request: UpstreamRequest): Promise<unknown> {
    if (!this.#questions.isAskedWithoutStream || !askingMethods.has(request.method))
      return this.#run(request);
    // A call whose caller can be asked runs alone, so that a question can only belong to it.
    return this.#turns.take(canBeAsked(request.client), () => this.#run(request), request.signal);
  }

  /** Rejects all open requests. Nothing is sent after this. */
  close(reason: Error): void {
    this.#closed = reason;
    const lost = new UpstreamError("lost", reason.message, { cause: reason });
    for (const pending of this.#pending.values()) {
      releasePending(pending);
      pending.reject(lost);
    }
    this.#pending.clear();
    this.#tasks.close(lost);
    this.#questions.close(reason);
  }

  #run(request: UpstreamRequest): Promise<unknown> {
    const { modern, hasTasks } = this.#options;
    if (modern === undefined) {
      if (request.isTask === true && hasTasks) return this.#runAsTask(request);
      return this.#exchange(request, request.params);
    }
    return this.#exchange(request, request.params).then((result) =>
      isOfType(result, "input_required")
        ? this.#answerQuestions(request, result)
        : this.#complete(request, result),
    );
  }

  /** In the older protocol the client asks for a task. */
  async #runAsTask(request: UpstreamRequest): Promise<unknown> {
    const token = this.#nextId;
    const result = await this.#exchange(request, { ...request.params, task: { ttl: TASK_LIFE } });
    const task = isRecord(result) ? result.task : undefined;
    return isRecord(task) ? this.#tasks.follow(task, request, token) : result;
  }

  #complete(request: UpstreamRequest, result: unknown): unknown {
    return isOfType(result, "task") && request.method === "tools/call"
      ? this.#tasks.follow(result, request)
      : plainResult(result);
  }

  /** In the stateless protocol the server ends the request with its questions, and gets it again with the answers. */
  async #answerQuestions(request: UpstreamRequest, first: Message): Promise<unknown> {
    let result = first;
    for (let round = 0; round < MOST_ROUNDS; round++) {
      const { inputRequests, requestState } = result;
      const asked = isRecord(inputRequests) ? Object.entries(inputRequests) : [];
      const inputResponses = asked.length > 0 ? await answersTo(asked, request, this.#options) : undefined;
      const next = await this.#exchange(request, { ...request.params, inputResponses, requestState });
      if (!isOfType(next, "input_required")) return this.#complete(request, next);
      result = next;
    }
    const text = `The server asked ${MOST_ROUNDS} times in a row and never came to an answer.`;
    throw new UpstreamError("refused", text);
  }

  #exchange(request: UpstreamRequest, params: Message): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const { transport, scope, modern } = this.#options;
      const { timeout, method, headers } = request;
      if (this.#closed !== undefined) throw this.#closed;
      const id = this.#nextId++;
      // Over HTTP in the stateless protocol, ending the stream cancels the request.
      const abort = scope === undefined || modern === undefined ? undefined : new AbortController();
      let isSent = false;
      const giveUp = (reason: unknown) => {
        if (this.#settle(id) === undefined) return;
        if (abort === undefined && isSent) {
          // The server may not stop at once, and may still ask questions about this request.
          if (askingMethods.has(method)) this.#givenUp.add(id);
          const meta = modern === undefined ? {} : { _meta: this.#statelessMeta(undefined, false) };
          const params = { ...meta, requestId: id, reason: reasonOf(reason ?? "cancelled") };
          this.#send({ method: "notifications/cancelled", params });
        } else abort?.abort();
        reject(reason);
      };
      const pending: Pending = { request, resolve, reject, release: undefined, timer: undefined };
      this.#pending.set(id, pending);
      pending.release = whenGivenUp(request, giveUp);
      if (this.#pending.get(id) === undefined) return;
      if (timeout !== undefined) {
        const text = `The server did not answer ${method} within ${timeout} ms.`;
        pending.timer = setTimeout(() => giveUp(new UpstreamError("timeout", text)), timeout);
      }
      isSent = true;
      const fail = (error: unknown) => {
        if (this.#settle(id) !== undefined) reject(toUpstreamError(error));
      };
      const whole = { jsonrpc: "2.0", id, method, params: this.#withMeta(request, params, id) };
      // Our own messages match the SDK's type.
      const message = whole as JSONRPCMessage;
      if (scope === undefined) {
        transport.send(message).catch(fail);
        return;
      }
      const options = {
        ...(abort === undefined ? {} : { requestSignal: abort.signal }),
        ...(headers === undefined ? {} : { headers }),
        onRequestStreamEnd() {
          const text = pending.problem ?? "The server ended its answer before it was complete.";
          fail(new UpstreamError("broken", text));
        },
      };
      // When `send` resolves, an answer that is no stream has been read completely.
      const onSent = () => {
        if (pending.isStream !== true && this.#pending.get(id) === pending) fail(noAnswerIn(pending));
      };
      scope.run(pending, () => void transport.send(message, options).then(onSent, fail));
    });
  }

  /** Adds to the parameters the `_meta` that the protocol wants. */
  #withMeta(request: UpstreamRequest, params: Message, id: number): Message {
    const { modern } = this.#options;
    const wantsProgress = request.onProgress !== undefined;
    if (modern === undefined && !wantsProgress) return params;
    if (modern === undefined && params._meta === undefined)
      return { ...params, _meta: { progressToken: id } };
    const { client, onLog } = request;
    return {
      ...params,
      _meta: {
        ...(isRecord(params._meta) ? params._meta : {}),
        ...(wantsProgress ? { progressToken: id } : {}),
        ...(modern === undefined
          ? {}
          : this.#statelessMeta(client, client !== undefined || onLog !== undefined)),
      },
    };
  }

  /** The description of the client that the stateless protocol wants with every message. */
  #statelessMeta(client: CallClient | undefined, wantsLog: boolean): object {
    const { modern, clientInfo, hasTasks } = this.#options;
    const capabilities = capabilitiesOf(client);
    // Call records and the server's log need `info`, even if the caller wants less; its messages are filtered later. Without
    // a level a server logs nothing.
    const level = client?.logLevel === "debug" ? "debug" : "info";
    return {
      [metaKeys.version]: modern,
      [metaKeys.client]: clientInfo,
      [metaKeys.capabilities]: hasTasks ? { ...capabilities, extensions } : capabilities,
      ...(wantsLog ? { [metaKeys.logLevel]: level } : {}),
    };
  }

  /** Sends a message without waiting for an answer. */
  #send(message: object): void {
    // Our own messages match the SDK's type.
    this.#options.transport.send({ jsonrpc: "2.0", ...message } as JSONRPCMessage).catch(() => {});
  }

  #settle(id: number): Pending | undefined {
    const pending = this.#pending.get(id);
    if (pending === undefined) return undefined;
    this.#pending.delete(id);
    releasePending(pending);
    return pending;
  }

  /** Returns whether the message was for us. All others go to the SDK. */
  #take(message: Message): boolean {
    const { id, method } = message;
    if (method === undefined) {
      return typeof id === "number" && id >= FIRST_ID && this.#takeAnswer(id, message);
    }
    if (typeof method !== "string") return false;
    const params = isRecord(message.params) ? message.params : {};
    if (id === undefined) return this.#takeNotification(method, params);
    if (this.#options.modern !== undefined || !isClientMethod(method)) return false;
    void this.#questions.take(id, method, params);
    return true;
  }

  #takeAnswer(id: number, { error, result }: Message): boolean {
    this.#givenUp.delete(id);
    const pending = this.#settle(id);
    if (pending === undefined) this.#cancelTask(result);
    else if (error !== undefined && error !== null) pending.reject(refusal(error));
    else if (isRecord(result)) pending.resolve(result);
    else {
      const text = "The server answered with neither a result nor an error.";
      pending.reject(new UpstreamError("broken", text));
    }
    return true;
  }

  /** Cancels a task that the server started for a call that was given up. */
  #cancelTask(result: unknown): void {
    if (!isRecord(result)) return;
    const task = result.resultType === "task" ? result : result.task;
    if (isRecord(task) && typeof task.taskId === "string") this.#tasks.cancel(task.taskId);
  }

  #takeNotification(method: string, params: Message): boolean {
    switch (method) {
      case "notifications/progress": {
        const { progress, total, message } = params;
        const token = Number(params.progressToken);
        const request = this.#pending.get(token)?.request ?? this.#tasks.reportedBy(token);
        request?.onProgress?.({
          progress: typeof progress === "number" ? progress : 0,
          ...(typeof total === "number" ? { total } : {}),
          ...(typeof message === "string" ? { message } : {}),
        });
        return token >= FIRST_ID;
      }
      case "notifications/cancelled":
        return this.#questions.withdraw(params.requestId, params.reason);
      case "notifications/message": {
        this.#options.onLog(params);
        const request = this.#questions.currentRequest();
        request?.client?.notify(method, params);
        request?.onLog?.(params);
        return true;
      }
      case "notifications/elicitation/complete":
        this.#questions.currentRequest()?.client?.notify(method, params);
        return true;
      default:
        return false;
    }
  }
}

/** Whether a result of the stateless protocol is not final: it asks for input, or names a task. */
function isOfType(result: unknown, type: "input_required" | "task"): result is Message {
  return isRecord(result) && result.resultType === type;
}

/** Calls `act` when the request is given up, or at once if it was already. Returns a function that stops it. */
function whenGivenUp(request: UpstreamRequest, act: (reason: unknown) => void): (() => void) | undefined {
  if (request.whenAborted !== undefined) return request.whenAborted(act);
  const { signal } = request;
  if (signal === undefined) return undefined;
  const onAbort = () => act(signal.reason);
  if (signal.aborted) onAbort();
  else signal.addEventListener("abort", onAbort, { once: true });
  return () => signal.removeEventListener("abort", onAbort);
}

function releasePending({ release, timer }: Pending): void {
  release?.();
  if (timer !== undefined) clearTimeout(timer);
}

function noAnswerIn({ status }: OpenRequest): UpstreamError {
  if (status === 202) return onlyAccepted();
  const text =
    "It answered with something that is not the answer to this request: none with its id is in it.";
  return new UpstreamError("broken", text);
}
