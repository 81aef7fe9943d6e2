import { setTimeout as delay } from "node:timers/promises";
import type { CallClient, ClientMethod } from "@toolrack/core";
import { asRecord, reasonOf, unlessAborted } from "../../../helpers/index.ts";
import { questionKey, rpcCodes } from "../../wire/index.ts";
import { UpstreamError } from "../failures.ts";
import type { Message, UpstreamRequest } from "./messages.ts";

const askable: ReadonlySet<unknown> = new Set(["elicitation/create", "sampling/createMessage", "roots/list"]);

export function isClientMethod(method: unknown): method is ClientMethod {
  return askable.has(method);
}

/** The capabilities that the rack declares to a server of the old protocol: once, for all callers. */
export const allCapabilities = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} } as const;

/** Says what a caller can answer. Some callers look only at the method and ignore `params`. */
interface Askable {
  can(method: ClientMethod, params?: object): boolean;
}

const none = Object.freeze({});

/** The capabilities of a caller. Servers of the stateless protocol are told them with every request. */
export function capabilitiesOf(client: Askable | undefined): object {
  if (client === undefined) return none;
  const form = client.can("elicitation/create", { mode: "form" });
  const url = client.can("elicitation/create", { mode: "url" });
  return {
    ...(form || url ? { elicitation: { ...(form ? { form: {} } : {}), ...(url ? { url: {} } : {}) } } : {}),
    ...(client.can("sampling/createMessage") ? { sampling: allCapabilities.sampling } : {}),
    ...(client.can("roots/list") ? { roots: allCapabilities.roots } : {}),
  };
}

/** Whether the caller can answer any question of a server. */
export function canBeAsked(client: Askable | undefined): boolean {
  return Object.keys(capabilitiesOf(client)).length > 0;
}

/** How many questions of a server may be open at a time. */
const MOST_OPEN = 100;

function cannotAsk(method: string): string {
  return `The caller of this tool cannot be asked (${method}). Call it from a client that answers such questions, or give what it needs as arguments.`;
}

/** Asks a caller a question and waits at most `limit` milliseconds. */
export async function askWithin(
  limit: number,
  client: CallClient,
  { method, params, signals }: { method: ClientMethod; params: object; signals: readonly AbortSignal[] },
): Promise<unknown> {
  const late = new AbortController();
  const timer = setTimeout(() => {
    late.abort(new Error(`Nobody answered the question within ${limit / 1_000} s.`));
  }, limit);
  timer.unref();
  try {
    return await client.request(method, params, AbortSignal.any([late.signal, ...signals]));
  } finally {
    clearTimeout(timer);
  }
}

/** How to answer the questions that a server asks during a request. */
export interface QuestionOptions {
  /** The key of the server, for error messages. */
  readonly server: string;
  /** The answer to `roots/list` when no caller can give one. */
  readonly roots: readonly object[];
  /** How long a person may think about a question of the server, in milliseconds. */
  readonly questionTimeout: number;
}

/** Asks the caller the questions of a server of the stateless protocol. Rejects if the caller cannot answer one of them. */
export async function answersTo(
  asked: readonly (readonly [string, unknown])[],
  { client, signal }: UpstreamRequest,
  { server, roots, questionTimeout }: QuestionOptions,
): Promise<Record<string, unknown>> {
  if (asked.length > MOST_OPEN) {
    const text = `The MCP server "${server}" asked ${asked.length} questions at once, and a caller is asked at most ${MOST_OPEN}. None of them was put. Ask it for less at one time, or tell whoever runs it.`;
    throw new UpstreamError("busy", text);
  }
  const signals = signal === undefined ? [] : [signal];
  const answerTo = async (key: string, question: unknown) => {
    const { method, params: given } = asRecord(question);
    const params = asRecord(given);
    if (!isClientMethod(method)) {
      const text = `The server asked for "${String(method)}", which nobody can be asked for.`;
      throw new UpstreamError("refused", text);
    }
    if (client?.can(method, params) === true)
      return askWithin(questionTimeout, client, { method, params: forCaller(params, key), signals });
    if (method === "roots/list") return { roots };
    throw new UpstreamError("refused", cannotAsk(method));
  };
  const answers = asked.map(async ([key, question]) => [key, await answerTo(key, question)] as const);
  return Object.fromEntries(await Promise.all(answers));
}

/**
 * The parameters of a question as the caller gets them: under the key that the server gave the question, if it gave one,
 * and without the server's token for progress, which means nothing to the caller.
 */
function forCaller(params: Message, key?: string): object {
  const { _meta, ...rest } = params;
  const { progressToken: _, ...meta } = asRecord(_meta);
  const all = key === undefined ? meta : { ...meta, [questionKey]: key };
  return Object.keys(all).length === 0 ? rest : { ...rest, _meta: all };
}

/** The part of an open request that a question of the server needs. */
export type AskableRequest = Pick<UpstreamRequest, "client" | "signal" | "onLog">;

interface ServerQuestionsOptions extends QuestionOptions {
  /**
   * The request whose task a message names; `over` when nobody waits for that task; undefined when no task is named.
   */
  readonly ofTask: (params: Message) => AskableRequest | "over" | undefined;
  /**
   * All open requests during which the server may ask questions; `given up` stands for requests that were given
   * up and about which the server may still ask.
   */
  readonly openRequests: () => readonly (AskableRequest | "given up")[];
  reply(id: unknown, answer: object): void;
}

/**
 * Answers the questions of a server of the older protocol. They arrive as requests of the server and do not say which
 * call they belong to.
 */
export class ServerQuestions {
  readonly #options: ServerQuestionsOptions;
  /** The open questions, by the ids that the server gave them. */
  readonly #open = new Map<unknown, AbortController>();
  /**
   * Whether the server has asked a question that did not come on the stream of a request. Only the list of open
   * requests can then show which call a question belongs to.
   */
  isAskedWithoutStream = false;

  constructor(options: ServerQuestionsOptions) {
    this.#options = options;
  }

  /** `own`: the request with whose own answer the question came; undefined when requests share a stream. */
  async take(id: unknown, method: ClientMethod, params: Message, own?: AskableRequest): Promise<void> {
    const { server, ofTask, roots, reply, questionTimeout } = this.#options;
    const refuse = (code: number, message: string) => reply(id, { error: { code, message } });
    const named = ofTask(params);
    if (named === undefined && own === undefined && method !== "roots/list") this.isAskedWithoutStream = true;
    const request = named === "over" ? undefined : (named ?? this.currentRequest(own));
    const { client, signal } = request ?? {};
    if (client?.can(method, params) !== true) {
      if (method === "roots/list") return reply(id, { result: { roots } });
      return refuse(
        rpcCodes.methodNotFound,
        request === undefined ? this.#whyNobody(method) : cannotAsk(method),
      );
    }
    if (this.#open.has(id)) {
      const text =
        "A question with this id waits for its answer already. Give each question an id of its own.";
      return refuse(rpcCodes.invalidRequest, text);
    }
    if (this.#open.size >= MOST_OPEN) {
      const text = `${MOST_OPEN} questions of the MCP server "${server}" wait for their answers already, and no more are put to callers at a time. Ask again when some of them are answered.`;
      return refuse(rpcCodes.refused, text);
    }
    const asking = new AbortController();
    this.#open.set(id, asking);
    try {
      const signals = signal === undefined ? [asking.signal] : [asking.signal, signal];
      const question = { method, params: forCaller(params), signals };
      reply(id, { result: await askWithin(questionTimeout, client, question) });
    } catch (thrown) {
      refuse(rpcCodes.internalError, reasonOf(thrown));
    } finally {
      this.#open.delete(id);
    }
  }

  /** To be called when the server withdraws a question. */
  withdraw(id: unknown, reason: unknown): void {
    this.#open.get(id)?.abort(reason);
  }

  /**
   * The request that a message of the server belongs to: the request of its stream, or the only open request.
   * Undefined if several are open, or the server may still work on a request that was given up: the message
   * might reach the wrong person.
   */
  currentRequest(own: AskableRequest | undefined): AskableRequest | undefined {
    if (own !== undefined) return own;
    const [only, ...others] = this.#options.openRequests();
    return others.length > 0 || only === "given up" ? undefined : only;
  }

  close(reason: Error): void {
    for (const asking of this.#open.values()) asking.abort(reason);
    this.#open.clear();
  }

  #whyNobody(method: ClientMethod): string {
    return this.#options.openRequests().length === 0
      ? `Nobody can be asked (${method}): no call is under way, and only who calls a tool can answer questions of its server. Ask while a call is being worked on.`
      : `The caller cannot be asked (${method}): other calls are under way or were given up a moment ago, and the question does not say which call it belongs to. Call the tool again when those have ended, or give what it needs as arguments.`;
  }
}

/**
 * How long a server may still work on a request after it was told to stop, in milliseconds. Many servers never
 * answer such a request.
 */
const GRACE = 30_000;

/** The requests that we gave up and the server has not answered yet. */
export class GivenUpRequests {
  readonly #until = new Map<number, number>();

  get isEmpty(): boolean {
    const now = performance.now();
    for (const [id, until] of this.#until) if (until <= now) this.#until.delete(id);
    return this.#until.size === 0;
  }

  add(id: number): void {
    this.#until.set(id, performance.now() + GRACE);
  }

  delete(id: number): void {
    this.#until.delete(id);
  }
}

/**
 * Decides which requests a server works on at a time: one request alone, or any number of requests that may run
 * together. Each waits for the earlier requests that it must not run beside, but only up to a limit.
 */
export class Turns {
  readonly #longestWait: number;
  readonly #sharing = new Set<Promise<void>>();
  #alone: Promise<unknown> = Promise.resolve();

  /** `longestWait` in milliseconds. */
  constructor(longestWait: number) {
    this.#longestWait = longestWait;
  }

  /** Runs the work when its turn comes. Rejects with the signal's reason when the signal aborts during the wait. */
  async take<Result>(
    isAlone: boolean,
    work: () => Promise<Result>,
    signal: AbortSignal | undefined,
  ): Promise<Result> {
    const before = isAlone ? Promise.all([this.#alone, ...this.#sharing]) : this.#alone;
    const { promise, resolve } = Promise.withResolvers<void>();
    if (isAlone) this.#alone = before.then(() => promise);
    else this.#sharing.add(promise);
    let release: NodeJS.Timeout | undefined;
    const begun = new AbortController();
    const limit = delay(this.#longestWait, undefined, { signal: begun.signal }).catch(() => {});
    try {
      await unlessAborted(Promise.race([before, limit]), signal ?? begun.signal);
      begun.abort();
      // A request that runs longer than this no longer makes later requests wait.
      release = setTimeout(resolve, this.#longestWait).unref();
      return await work();
    } finally {
      begun.abort();
      clearTimeout(release);
      resolve();
      this.#sharing.delete(promise);
    }
  }
}
