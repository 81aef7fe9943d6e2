import type { AsyncLocalStorage } from "node:async_hooks";
import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/client";
import type { CallClient } from "@toolrack/core";
import { isRecord, reasonOf } from "../../../helpers/index.ts";
import { metaKeys, tasksExtension } from "../../wire/index.ts";
import { UpstreamError } from "../failures.ts";
import { onlyAccepted, tooLargeIn } from "./http.ts";
import type { Answering, Message, UpstreamRequest } from "./messages.ts";
import {
  answersTo,
  canBeAsked,
  capabilitiesOf,
  GivenUp,
  isClientMethod,
  type QuestionOptions,
  ServerQuestions,
  Turns,
} from "./questions.ts";
import { refusal, toUpstreamError } from "./sdk-errors.ts";
import { plainResult, TASK_LIFE, TaskRuns } from "./task-runs.ts";

interface RequesterOptions extends QuestionOptions {
  readonly transport: Transport;
  /** Which request a message belongs to, where every request has a stream of its own. */
  readonly scope: AsyncLocalStorage<Answering> | undefined;
  /** The version, when the server speaks the stateless protocol; everything is then said with every request. */
  readonly modern: string | undefined;
  readonly clientInfo: object;
  /** The server can work on calls as tasks. */
  readonly hasTasks: boolean;
  /** Is told what a server logs. */
  readonly onLog: (params: Message) => void;
}

interface Pending extends Answering {
  readonly resolve: (result: unknown) => void;
  readonly reject: (reason: unknown) => void;
  /** Stops waiting for the signal. */
  release: (() => void) | undefined;
  timer: NodeJS.Timeout | undefined;
}

/** Ids of the SDK's own requests on the same transport begin at 0. */
const FIRST_ID = 1_000_000_000;
const MOST_ROUNDS = 10;

/** How long a call waits for one that may be asked before it; then a question of the server is nobody's. */
const LONGEST_TURN = 30_000;

/** Requests in the middle of which a server may ask something. */
const askingMethods: ReadonlySet<string> = new Set(["tools/call", "prompts/get", "resources/read"]);

const extensions = Object.freeze({ [tasksExtension]: {} });

/**
 * Requests to an upstream server, written straight onto the transport of a connected SDK client. The SDK validates every
 * message several times over; what passes through a rack is validated by those at its ends. Also brings a server's
 * questions to the caller whose request caused them, in both eras of the protocol.
 */
export class Requester {
  readonly #options: RequesterOptions;
  readonly #pending = new Map<number, Pending>();
  readonly #questions: ServerQuestions;
  readonly #tasks: TaskRuns;
  readonly #turns = new Turns(LONGEST_TURN);
  readonly #givenUp = new GivenUp();
  #nextId = FIRST_ID;
  #closed: Error | undefined;

  /** The client must be connected: from here on the requester sees every message first. */
  constructor(options: RequesterOptions) {
    this.#options = options;
    const { server, roots, patience, transport, scope, modern } = options;
    this.#tasks = new TaskRuns({
      server,
      roots,
      patience,
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
      patience,
      current: () => scope?.getStore()?.request,
      ofTask: (params) => this.#tasks.requestFor(params),
      underWay: () => [
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
      // A message of a server may have any form, whatever the type says.
      if (!this.#take(message as unknown as Message)) onmessage?.(message, extra);
    };
    transport.onerror = (error) => {
      const answering = scope?.getStore();
      const problem = tooLargeIn(error);
      if (answering !== undefined && problem !== undefined) answering.problem = problem;
      onerror?.(error);
    };
  }

  get inFlight(): number {
    return this.#pending.size + this.#tasks.size;
  }

  /** Resolves with the result as the server gave it. Rejects with `UpstreamError`, or with the signal's reason. */
  request(request: UpstreamRequest): Promise<unknown> {
    if (!this.#questions.isAskedWithoutStream || !askingMethods.has(request.method))
      return this.#run(request);
    // A call that can be asked is alone with the server, so that a question can only be about this.
    return this.#turns.take(canBeAsked(request.client), () => this.#run(request), request.signal);
  }

  /** Everything that waits fails now: what was sent is lost, and nothing is sent any more. */
  close(reason: Error): void {
    this.#closed = reason;
    const lost = new UpstreamError("lost", reason.message, { cause: reason });
    for (const pending of this.#pending.values()) {
      letGo(pending);
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
      isOfType(result, "input_required") ? this.#goOn(request, result) : this.#complete(request, result),
    );
  }

  /** In the older protocol the caller says that it is to be a task. */
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

  /** The stateless protocol's way of asking: the server ends the request, and is sent it again with the answers. */
  async #goOn(request: UpstreamRequest, first: Message): Promise<unknown> {
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
      // There the end of the stream is what cancels.
      const abort = scope === undefined || modern === undefined ? undefined : new AbortController();
      let isSent = false;
      const giveUp = (reason: unknown) => {
        if (this.#settle(id) === undefined) return;
        if (abort === undefined && isSent) {
          // The server may not stop at once, and what it asks until then is about this.
          if (askingMethods.has(method)) this.#givenUp.add(id);
          const meta = modern === undefined ? {} : { _meta: this.#statelessMeta(undefined, false) };
          const params = { ...meta, requestId: id, reason: reasonOf(reason ?? "cancelled") };
          this.#send({ method: "notifications/cancelled", params });
        } else abort?.abort();
        reject(reason);
      };
      const pending: Pending = { request, resolve, reject, release: undefined, timer: undefined };
      this.#pending.set(id, pending);
      pending.release = listen(request, giveUp);
      if (this.#pending.get(id) === undefined) return;
      if (timeout !== undefined) {
        const text = `The server did not answer ${method} within ${timeout} ms.`;
        pending.timer = setTimeout(() => giveUp(new UpstreamError("timeout", text)), timeout);
      }
      isSent = true;
      const fail = (error: unknown) => {
        if (this.#settle(id) !== undefined) reject(toUpstreamError(error));
      };
      const whole = { jsonrpc: "2.0", id, method, params: this.#around(request, params, id) };
      // A message of ours always has the form that the SDK's type describes.
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
      // An answer that is no stream has been read to its end by then.
      const onSent = () => {
        if (pending.isStream !== true && this.#pending.get(id) === pending) fail(noAnswerIn(pending));
      };
      scope.run(pending, () => void transport.send(message, options).then(onSent, fail));
    });
  }

  /** The parameters of a request as they are sent under this id. */
  #around(request: UpstreamRequest, params: Message, id: number): Message {
    const { modern } = this.#options;
    const hears = request.onProgress !== undefined;
    if (modern === undefined && !hears) return params;
    if (modern === undefined && params._meta === undefined)
      return { ...params, _meta: { progressToken: id } };
    const { client, onLog } = request;
    return {
      ...params,
      _meta: {
        ...(isRecord(params._meta) ? params._meta : {}),
        ...(hears ? { progressToken: id } : {}),
        ...(modern === undefined
          ? {}
          : this.#statelessMeta(client, client !== undefined || onLog !== undefined)),
      },
    };
  }

  /** What the stateless protocol wants said with every message. */
  #statelessMeta(client: CallClient | undefined, hearsLog: boolean): object {
    const { modern, clientInfo, hasTasks } = this.#options;
    const capabilities = capabilitiesOf(client);
    // The record of a call and the server's own log begin at `info`, also when the caller wants less: what is too little
    // for a caller is kept from it where it is told. Without a level a server logs nothing.
    const level = client?.logLevel === "debug" ? "debug" : "info";
    return {
      [metaKeys.version]: modern,
      [metaKeys.client]: clientInfo,
      [metaKeys.capabilities]: hasTasks ? { ...capabilities, extensions } : capabilities,
      ...(hearsLog ? { [metaKeys.logLevel]: level } : {}),
    };
  }

  /** Sends what nobody waits for. */
  #send(message: object): void {
    // As above.
    this.#options.transport.send({ jsonrpc: "2.0", ...message } as JSONRPCMessage).catch(() => {});
  }

  #settle(id: number): Pending | undefined {
    const pending = this.#pending.get(id);
    if (pending === undefined) return undefined;
    this.#pending.delete(id);
    letGo(pending);
    return pending;
  }

  /** Says whether the message was for us; any other is the SDK's. */
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

  /** Cancels the task that was begun for a call that had been given up. */
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
        const asked = this.#questions.belongsTo();
        asked?.client?.notify(method, params);
        asked?.onLog?.(params);
        return true;
      }
      case "notifications/elicitation/complete":
        this.#questions.belongsTo()?.client?.notify(method, params);
        return true;
      default:
        return false;
    }
  }
}

/** Whether a result of the stateless protocol is not the last word: it asks for input, or names a task. */
function isOfType(result: unknown, type: "input_required" | "task"): result is Message {
  return isRecord(result) && result.resultType === type;
}

/** Acts when the request is to be given up, at once when it was before. Returns a function that stops it. */
function listen(request: UpstreamRequest, act: (reason: unknown) => void): (() => void) | undefined {
  if (request.whenAborted !== undefined) return request.whenAborted(act);
  const { signal } = request;
  if (signal === undefined) return undefined;
  const onAbort = () => act(signal.reason);
  if (signal.aborted) onAbort();
  else signal.addEventListener("abort", onAbort, { once: true });
  return () => signal.removeEventListener("abort", onAbort);
}

function letGo({ release, timer }: Pending): void {
  release?.();
  if (timer !== undefined) clearTimeout(timer);
}

function noAnswerIn({ status }: Answering): UpstreamError {
  if (status === 202) return onlyAccepted();
  const said =
    "It answered with something that is not the answer to this request: none with its id is in it.";
  return new UpstreamError("broken", said);
}
