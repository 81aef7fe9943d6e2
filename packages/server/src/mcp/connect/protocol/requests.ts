import type { AsyncLocalStorage } from "node:async_hooks";
import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/client";
import type { CallClient, ProgressUpdate } from "@toolrack/core";
import { isRecord } from "../../../helpers/index.ts";
import { GivenUp, onlyAccepted, UpstreamError } from "./failures.ts";

import { Envelope, type EnvelopeOptions, tooLargeIn } from "./fetch.ts";
import {
  isInputRequired,
  isTask,
  type Message,
  plainResult,
  refusal,
  toProgress,
  toUpstreamError,
} from "./json-rpc.ts";
import { type Answering, answersTo, canBeAsked, isClientMethod, ServerQuestions } from "./questions.ts";
import { Turns } from "./session.ts";
import { TASK_LIFE, TaskRuns } from "./task-runs.ts";

/** A request to an upstream server. */
export interface LaneRequest {
  readonly method: string;
  readonly params: Message;
  /** Gives up the request, here and there. */
  readonly signal?: AbortSignal | undefined;
  /** The same, where asking for the signal would make one. Answers how to stop. */
  readonly whenAborted?: (act: (reason: unknown) => void) => () => void;
  /** In milliseconds. Without it, only the signal ends the waiting. */
  readonly timeout?: number;
  /** Whom the server's own questions reach while it works on this. */
  readonly client?: CallClient | undefined;
  readonly onProgress?: (update: ProgressUpdate) => void;
  /** Is told what the server logs while it works on this. */
  readonly onLog?: (params: Message) => void;
  /** Says that it waits for its turn. Answers how to say that its turn has come. */
  readonly waitingForTurn?: () => () => void;
  /** For a server that is reached over HTTP. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** By which whatever stands before a server that is reached over HTTP knows where to send it, beside its method. */
  readonly routingName?: string;
  /** The server works on it only as a task. */
  readonly isTask?: boolean;
}

export interface LaneOptions extends EnvelopeOptions {
  /** The key of the server, for messages. */
  readonly server: string;
  readonly transport: Transport;
  /** Which request a message belongs to, where every request has a stream of its own. */
  readonly scope: AsyncLocalStorage<Answering> | undefined;
  /** Answers `roots/list` where no caller can. */
  readonly roots: readonly object[];
  /** How long somebody may think about a question of the server, in milliseconds. */
  readonly patience: number;
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

/**
 * Requests to an upstream server, written straight onto the transport of a connected SDK client. The SDK validates every
 * message several times over; what passes through a rack is validated by those at its ends. Also brings a server's
 * questions to the caller whose request caused them, in both eras of the protocol.
 */
export class RequestLane {
  readonly #options: LaneOptions;
  readonly #pending = new Map<number, Pending>();
  readonly #scope: AsyncLocalStorage<Answering> | undefined;
  readonly #envelope: Envelope;
  readonly #questions: ServerQuestions;
  readonly #tasks: TaskRuns;
  readonly #turns = new Turns(LONGEST_TURN);
  readonly #givenUp = new GivenUp();
  #nextId = FIRST_ID;
  #closed: Error | undefined;

  /** The client must be connected: from here on the lane sees every message first. */
  constructor(options: LaneOptions) {
    this.#options = options;
    const { server, transport, roots, patience, modern } = options;
    this.#scope = options.scope;
    this.#envelope = new Envelope(options);
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
      current: () => this.#scope?.getStore()?.request,
      ofTask: (params) => this.#tasks.requestFor(params),
      underWay: () => [
        ...this.#tasks.requests,
        ...[...this.#pending.values()]
          .map(({ request }) => request)
          .filter(({ method }) => askingMethods.has(method)),
        ...(this.#givenUp.isEmpty ? [] : ["given up" as const]),
      ],
      roots,
      patience,
      reply: (id, answer) => this.#send({ id, ...answer }),
    });
    const others = transport.onmessage;
    transport.onmessage = (message, extra) => {
      if (!this.#take(message as Message)) others?.(message, extra);
    };
    const { onerror } = transport;
    transport.onerror = (error) => {
      const pending = this.#scope?.getStore();
      const problem = tooLargeIn(error);
      if (pending !== undefined && problem !== undefined) pending.problem = problem;
      onerror?.(error);
    };
  }

  get inFlight(): number {
    return this.#pending.size + this.#tasks.size;
  }

  /** Resolves with the result as the server gave it. Rejects with `UpstreamError`, or with the signal's reason. */
  request(request: LaneRequest): Promise<unknown> {
    if (!this.#questions.isAskedWithoutStream || !askingMethods.has(request.method))
      return this.#run(request);
    // Who can be asked is alone with the server, so that a question can only be about this.
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
    this.#givenUp.clear();
    this.#questions.close(reason);
  }

  #run(request: LaneRequest): Promise<unknown> {
    const { modern, hasTasks } = this.#options;
    if (modern === undefined) {
      if (request.isTask === true && hasTasks) return this.#runAsTask(request);
      return this.#exchange(request, request.params);
    }
    return this.#exchange(request, request.params).then((result) =>
      isInputRequired(result) ? this.#goOn(request, result) : this.#complete(request, result),
    );
  }

  /** In the older protocol who calls says that it is to be a task. */
  async #runAsTask(request: LaneRequest): Promise<unknown> {
    const token = this.#nextId;
    const result = await this.#exchange(request, { ...request.params, task: { ttl: TASK_LIFE } });
    const task = isRecord(result) ? result.task : undefined;
    return isRecord(task) ? this.#tasks.follow(task, request, token) : result;
  }

  #complete(request: LaneRequest, result: unknown): unknown {
    return isTask(result) && request.method === "tools/call"
      ? this.#tasks.follow(result, request)
      : plainResult(result);
  }

  /** The stateless protocol's way of asking: the server ends the request, and is sent it again with the answers. */
  async #goOn(request: LaneRequest, first: Message): Promise<unknown> {
    let result = first;
    for (let round = 0; round < MOST_ROUNDS; round++) {
      const { inputRequests, requestState } = result;
      const asked = isRecord(inputRequests) ? Object.entries(inputRequests) : [];
      const inputResponses = await answersTo(asked, request, this.#options);
      const next = await this.#exchange(request, {
        ...request.params,
        ...(asked.length > 0 ? { inputResponses } : {}),
        ...(requestState === undefined ? {} : { requestState }),
      });
      if (!isInputRequired(next)) return this.#complete(request, next);
      result = next;
    }
    throw new UpstreamError(
      "refused",
      `The server asked ${MOST_ROUNDS} times in a row and never came to an answer.`,
    );
  }

  #exchange(request: LaneRequest, params: Message): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const { timeout, method, headers } = request;
      if (this.#closed !== undefined) throw this.#closed;
      const id = this.#nextId++;
      // There the end of the stream is what cancels.
      const abort =
        this.#scope === undefined || this.#options.modern === undefined ? undefined : new AbortController();
      let isSent = false;
      const giveUp = (reason: unknown) => {
        if (this.#settle(id) === undefined) return;
        if (abort === undefined && isSent) {
          // The server may not stop at once, and what it asks until then is about this.
          if (askingMethods.has(method)) this.#givenUp.add(id);
          this.#cancel(id, reason);
        } else abort?.abort();
        reject(reason);
      };
      const pending: Pending = { request, resolve, reject, release: undefined, timer: undefined };
      this.#pending.set(id, pending);
      pending.release = listen(request, giveUp);
      if (this.#pending.get(id) === undefined) return;
      if (timeout !== undefined) pending.timer = setTimeout(() => giveUp(timedOut(method, timeout)), timeout);
      isSent = true;
      const fail = (error: unknown) => {
        if (this.#settle(id) !== undefined) reject(toUpstreamError(error));
      };
      // A message of ours always has the form that the SDK's type describes.
      const message = {
        jsonrpc: "2.0",
        id,
        method,
        params: this.#envelope.around(request, params, id),
      } as JSONRPCMessage;
      if (this.#scope === undefined) {
        this.#options.transport.send(message).catch(fail);
        return;
      }
      const onRequestStreamEnd = () =>
        fail(
          new UpstreamError(
            "broken",
            pending.problem ?? "The server ended its answer before it was complete.",
          ),
        );
      const options = {
        ...(abort === undefined ? {} : { requestSignal: abort.signal }),
        ...(headers === undefined ? {} : { headers }),
        onRequestStreamEnd,
      };
      // An answer that is no stream has been read to its end by then.
      const onSent = () => {
        if (pending.isStream !== true && this.#pending.get(id) === pending) fail(noAnswerIn(pending));
      };
      this.#scope.run(pending, () => void this.#options.transport.send(message, options).then(onSent, fail));
    });
  }

  #cancel(id: number, reason: unknown): void {
    const text = reason instanceof Error ? reason.message : String(reason ?? "cancelled");
    const params = { ...this.#envelope.ofNotice, requestId: id, reason: text };
    this.#send({ method: "notifications/cancelled", params });
  }

  /** Sends what nobody waits for. */
  #send(message: object): void {
    this.#options.transport.send({ jsonrpc: "2.0", ...message } as JSONRPCMessage).catch(() => {});
  }

  #settle(id: number): Pending | undefined {
    const pending = this.#pending.get(id);
    if (pending === undefined) return undefined;
    this.#pending.delete(id);
    letGo(pending);
    return pending;
  }

  /** Says whether the message was for the lane. */
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
    // One that nobody waits for any more came too late.
    this.#givenUp.delete(id);
    const pending = this.#settle(id);
    if (pending === undefined) this.#forget(result);
    if (error !== undefined && error !== null) pending?.reject(refusal(error));
    else if (isRecord(result)) pending?.resolve(result);
    else pending?.reject(noResult());
    return true;
  }

  /** A task that was begun for a call that had been given up is nobody's. */
  #forget(result: unknown): void {
    if (!isRecord(result)) return;
    const task = result.resultType === "task" ? result : result.task;
    if (isRecord(task) && typeof task.taskId === "string") this.#tasks.cancel(task.taskId);
  }

  #takeNotification(method: string, params: Message): boolean {
    switch (method) {
      case "notifications/progress": {
        const token = Number(params.progressToken);
        const request = this.#pending.get(token)?.request ?? this.#tasks.reportedBy(token);
        request?.onProgress?.(toProgress(params));
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

/** Acts when the request is to be given up, at once when it was before. Answers how to stop waiting for it. */
function listen(request: LaneRequest, act: (reason: unknown) => void): (() => void) | undefined {
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

function noResult(): UpstreamError {
  return new UpstreamError("broken", "The server answered with neither a result nor an error.");
}

function timedOut(method: string, limit: number): UpstreamError {
  return new UpstreamError("timeout", `The server did not answer ${method} within ${limit} ms.`);
}
