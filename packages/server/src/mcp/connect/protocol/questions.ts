import type { CallClient, ClientMethod } from "@toolrack/core";
import { isRecord, reasonOf } from "../../../helpers/index.ts";
import { rpcCodes } from "../../wire/index.ts";
import { UpstreamError } from "../failures.ts";
import type { Message, UpstreamRequest } from "./messages.ts";

const askable: ReadonlySet<string> = new Set<ClientMethod>([
  "elicitation/create",
  "sampling/createMessage",
  "roots/list",
]);

export function isClientMethod(method: unknown): method is ClientMethod {
  return typeof method === "string" && askable.has(method);
}

/** What we say that we can do where it must be said once for all callers: everything. */
export const allCapabilities = {
  elicitation: { form: {}, url: {} },
  sampling: {},
  roots: {},
} as const;

/** A caller as it is asked what it can answer. Not every one looks at the question itself; then the method decides. */
interface Askable {
  can(method: ClientMethod, params?: object): boolean;
}

const none = Object.freeze({});

/** The capabilities of a caller, for servers that are told them with every request. */
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

/** Whether a question of a server could reach anybody at the other end. */
export function canBeAsked(client: Askable | undefined): boolean {
  return Object.keys(capabilitiesOf(client)).length > 0;
}

/** Questions of a server that may wait for their answers at a time. */
const MOST_OPEN = 100;

function cannotAsk(method: string): string {
  return `The caller of this tool cannot be asked (${method}). Call it from a client that answers such questions, or give what it needs as arguments.`;
}

/** Puts a question to a caller, for at most `limit` milliseconds: nobody waits for an answer for ever. */
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

/** What is needed to answer what a server asks in the middle of a request. */
export interface QuestionOptions {
  /** The key of the server, for messages. */
  readonly server: string;
  /** Answers `roots/list` where no caller can. */
  readonly roots: readonly object[];
  /** How long a person may think about a question of the server, in milliseconds. */
  readonly patience: number;
}

/** Has the caller answer what a server of the stateless protocol asks. Rejects for a question that it cannot be asked. */
export async function answersTo(
  asked: readonly (readonly [string, unknown])[],
  { client, signal }: UpstreamRequest,
  { server, roots, patience }: QuestionOptions,
): Promise<Record<string, unknown>> {
  if (asked.length > MOST_OPEN) {
    const text = `The MCP server "${server}" asked ${asked.length} questions at once, and a caller is asked at most ${MOST_OPEN}. None of them was put. Ask it for less at one time, or tell whoever runs it.`;
    throw new UpstreamError("busy", text);
  }
  const answerTo = (question: unknown): unknown => {
    const { method, params: given } = isRecord(question) ? question : {};
    const params = isRecord(given) ? given : {};
    if (!isClientMethod(method)) {
      const text = `The server asked for "${String(method)}", which nobody can be asked for.`;
      throw new UpstreamError("refused", text);
    }
    if (client?.can(method, params) === true) {
      const signals = signal === undefined ? [] : [signal];
      return askWithin(patience, client, { method, params, signals });
    }
    if (method === "roots/list") return { roots };
    throw new UpstreamError("refused", cannotAsk(method));
  };
  const answers = await Promise.all(
    asked.map(async ([key, question]) => [key, await answerTo(question)] as const),
  );
  return Object.fromEntries(answers);
}

/** A request under way, as far as a question of the server may belong to it. */
export type Asked = Pick<UpstreamRequest, "client" | "signal" | "onLog">;

interface ServerQuestionsOptions extends QuestionOptions {
  /** The request on whose own stream the message came that is being looked at; undefined where streams are shared. */
  readonly current: () => Asked | undefined;
  /** The request that a message belongs to which says so by naming its task; `over` when nobody waits for that. */
  readonly ofTask: (params: Message) => Asked | "over" | undefined;
  /** Every request under way that can lead to questions, and every one that was given up and may still do so. */
  readonly underWay: () => readonly (Asked | "given up")[];
  reply(id: unknown, answer: object): void;
}

/**
 * The questions of a server of the older protocol, which arrive as requests of its own and do not say which call they
 * belong to.
 */
export class ServerQuestions {
  readonly #options: ServerQuestionsOptions;
  /** Those that are being answered, by the server's ids. */
  readonly #open = new Map<unknown, AbortController>();
  /** The server has asked something that could be assigned to a call only because no other was under way. */
  isAskedWithoutStream = false;

  constructor(options: ServerQuestionsOptions) {
    this.#options = options;
  }

  async take(id: unknown, method: ClientMethod, params: Message): Promise<void> {
    const { server, current, ofTask, roots, reply, patience } = this.#options;
    const refuse = (code: number, message: string) => reply(id, { error: { code, message } });
    const named = ofTask(params);
    if (named === undefined && current() === undefined && method !== "roots/list")
      this.isAskedWithoutStream = true;
    const asker = named === "over" ? undefined : (named ?? this.belongsTo());
    const { client, signal } = asker ?? {};
    if (client?.can(method, params) !== true) {
      if (method === "roots/list") return reply(id, { result: { roots } });
      return refuse(
        rpcCodes.methodNotFound,
        asker === undefined ? this.#whyNobody(method) : cannotAsk(method),
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
      reply(id, { result: await askWithin(patience, client, { method, params, signals }) });
    } catch (thrown) {
      refuse(rpcCodes.internalError, reasonOf(thrown));
    } finally {
      this.#open.delete(id);
    }
  }

  /** The server no longer wants to know. Says whether it was about a question that is open. */
  withdraw(id: unknown, reason: unknown): boolean {
    const asking = this.#open.get(id);
    asking?.abort(reason);
    return asking !== undefined;
  }

  /**
   * The request that a message of the server belongs to: that of its stream, or the only one under way. Where there are
   * several, or one was given up that the server may still be at, it is nobody's: it might reach the wrong person.
   */
  belongsTo(): Asked | undefined {
    const own = this.#options.current();
    if (own !== undefined) return own;
    const [only, ...others] = this.#options.underWay();
    return others.length > 0 || only === "given up" ? undefined : only;
  }

  close(reason: Error): void {
    for (const asking of this.#open.values()) asking.abort(reason);
    this.#open.clear();
  }

  #whyNobody(method: ClientMethod): string {
    return this.#options.underWay().length === 0
      ? `Nobody can be asked (${method}): no call is under way, and only who calls a tool can answer questions of its server. Ask while a call is being worked on.`
      : `The caller cannot be asked (${method}): other calls are under way or were given up a moment ago, and the question does not say which call it belongs to. Call the tool again when those have ended, or give what it needs as arguments.`;
  }
}

/** How long a server is thought to be at a request after it was told to stop. Many never answer such a request. */
const GRACE = 30_000;

/** The requests that were given up here and that the server has not answered yet. */
export class GivenUp {
  readonly #until = new Map<number, number>();

  get isEmpty(): boolean {
    const now = performance.now();
    // Those that were given up first come first.
    for (const [id, until] of this.#until) {
      if (until > now) return false;
      this.#until.delete(id);
    }
    return true;
  }

  add(id: number): void {
    this.#until.set(id, performance.now() + GRACE);
  }

  delete(id: number): void {
    if (this.#until.size > 0) this.#until.delete(id);
  }
}

/**
 * Which requests a server works on at a time: any number of those that share it, or one alone. Each waits for those that
 * came before, but only so long: then it goes ahead beside them.
 */
export class Turns {
  readonly #patience: number;
  readonly #sharing = new Set<Promise<void>>();
  #alone: Promise<unknown> = Promise.resolve();

  /** `patience` is the longest wait, in milliseconds. */
  constructor(patience: number) {
    this.#patience = patience;
  }

  /** A request whose signal aborts while it waits gives up its place. Rejects with the signal's reason then. */
  async take<Result>(
    isAlone: boolean,
    work: () => Promise<Result>,
    signal: AbortSignal | undefined,
  ): Promise<Result> {
    const before = isAlone ? Promise.all([this.#alone, ...this.#sharing]) : this.#alone;
    const { promise, resolve } = Promise.withResolvers<void>();
    if (isAlone) this.#alone = before.then(() => promise);
    else this.#sharing.add(promise);
    try {
      await this.#wait(before, signal);
      return await work();
    } finally {
      resolve();
      this.#sharing.delete(promise);
    }
  }

  async #wait(before: Promise<unknown>, signal: AbortSignal | undefined): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const giveUp = () => reject(signal?.reason);
    const timer = setTimeout(resolve, this.#patience);
    signal?.addEventListener("abort", giveUp, { once: true });
    if (signal?.aborted) giveUp();
    void before.then(resolve);
    try {
      await promise;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", giveUp);
    }
  }
}
