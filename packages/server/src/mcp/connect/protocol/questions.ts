import type { DiscoverResult } from "@modelcontextprotocol/client";
import { type CallClient, type ClientMethod, hashValue } from "@toolrack/core";
import { isRecord } from "../../../helpers/index.ts";
import type { ServerEntry } from "../config/entry.ts";
import { UpstreamError } from "./failures.ts";
import type { Message } from "./json-rpc.ts";
import type { LaneRequest } from "./requests.ts";

const askable: ReadonlySet<string> = new Set<ClientMethod>([
  "elicitation/create",
  "sampling/createMessage",
  "roots/list",
]);

export function isClientMethod(method: string): method is ClientMethod {
  return askable.has(method);
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

/** Whether the caller can be asked this very question. */
export function canAnswer(client: Askable | undefined, method: ClientMethod, params: object): boolean {
  return client?.can(method, params) === true;
}

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
  return client !== undefined && Object.keys(capabilitiesOf(client)).length > 0;
}

const none = Object.freeze({});

function cannotAsk(method: string): string {
  return `The caller of this tool cannot be asked (${method}). Call it from a client that answers such questions, or give what it needs as arguments.`;
}

function nobodyToAsk(method: string): string {
  return `The caller cannot be asked (${method}): other calls are under way or were given up a moment ago, and the question does not say which call it belongs to. Call the tool again when those have ended, or give what it needs as arguments.`;
}

function nobodyCalls(method: string): string {
  return `Nobody can be asked (${method}): no call is under way, and only who calls a tool can answer questions of its server. Ask while a call is being worked on.`;
}

/** Questions of a server that may wait for their answers at a time. */
const MOST_OPEN = 100;

/** `server` is its key. */
function tooManyOpen(server: string): string {
  return `${MOST_OPEN} questions of the MCP server "${server}" wait for their answers already, and no more are put to callers at a time. Ask again when some of them are answered.`;
}

function tooManyAtOnce(count: number, server: string): string {
  return `The MCP server "${server}" asked ${count} questions at once, and a caller is asked at most ${MOST_OPEN}. None of them was put. Ask it for less at one time, or tell whoever runs it.`;
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
export interface InputSurroundings {
  /** The key of the server, for messages. */
  readonly server: string;
  /** Answers `roots/list` where no caller can. */
  readonly roots: readonly object[];
  /** How long somebody may think about a question of the server, in milliseconds. */
  readonly patience: number;
}

/** Has the caller answer what a server of the stateless protocol asks. Rejects where somebody cannot be asked that. */
export async function answersTo(
  asked: readonly (readonly [string, unknown])[],
  request: LaneRequest,
  surroundings: InputSurroundings,
): Promise<Record<string, unknown>> {
  if (asked.length > MOST_OPEN)
    throw new UpstreamError("busy", tooManyAtOnce(asked.length, surroundings.server));
  const answers = await Promise.all(
    asked.map(async ([key, question]) => [key, await answerTo(question, request, surroundings)] as const),
  );
  return Object.fromEntries(answers);
}

async function answerTo(
  question: unknown,
  { client, signal }: LaneRequest,
  { roots, patience }: InputSurroundings,
): Promise<unknown> {
  const { method, params } = isRecord(question) ? question : {};
  if (typeof method !== "string" || !isClientMethod(method)) {
    throw new UpstreamError(
      "refused",
      `The server asked for "${String(method)}", which nobody can be asked for.`,
    );
  }
  const asked = isRecord(params) ? params : {};
  if (client === undefined || !canAnswer(client, method, asked)) {
    if (method === "roots/list") return { roots };
    throw new UpstreamError("refused", cannotAsk(method));
  }
  const signals = signal === undefined ? [] : [signal];
  return askWithin(patience, client, { method, params: asked, signals });
}

/** A request under way, as far as a question of the server may belong to it. */
export interface Asked {
  readonly client?: CallClient | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Is told what the server logs while it works on this. */
  readonly onLog?: (params: Message) => void;
}

interface ServerQuestionsOptions {
  /** The key of the server, for messages. */
  readonly server: string;
  /** The request on whose own stream the message came that is being looked at; undefined where streams are shared. */
  readonly current: () => Asked | undefined;
  /** The request that a message belongs to which says so by naming its task; `over` when nobody waits for that. */
  readonly ofTask: (params: Message) => Asked | "over" | undefined;
  /** Every request under way that can lead to questions, and every one that was given up and may still do so. */
  readonly underWay: () => readonly (Asked | "given up")[];
  /** How long somebody may think about a question, in milliseconds. */
  readonly patience: number;
  readonly roots: readonly object[];
  reply(id: unknown, answer: object): void;
}

const OVER_LIMIT = -32_000;
const isOpenAlready = {
  code: -32_600,
  message: "A question with this id waits for its answer already. Give each question an id of its own.",
};

/**
 * The questions of a server of the older protocol, which arrive as requests of its own and do not say which call they
 * belong to.
 */
export class ServerQuestions {
  readonly #options: ServerQuestionsOptions;
  /** Those that are being answered, by the server's ids. */
  readonly #open = new Map<unknown, AbortController>();
  /** The server has asked something that only its being alone could assign. */
  isAskedWithoutStream = false;

  constructor(options: ServerQuestionsOptions) {
    this.#options = options;
  }

  async take(id: unknown, method: ClientMethod, params: Message): Promise<void> {
    const { server, current, ofTask, roots, reply, patience } = this.#options;
    const named = ofTask(params);
    if (named === undefined && current() === undefined && method !== "roots/list")
      this.isAskedWithoutStream = true;
    const asker = named === "over" ? undefined : (named ?? this.belongsTo());
    const { client, signal } = asker ?? {};
    if (client === undefined || !canAnswer(client, method, params)) {
      const message = asker === undefined ? this.#whyNobody(method) : cannotAsk(method);
      if (method === "roots/list") reply(id, { result: { roots } });
      else reply(id, { error: { code: -32_601, message } });
      return;
    }
    if (this.#open.has(id)) {
      reply(id, { error: isOpenAlready });
      return;
    }
    if (this.#open.size >= MOST_OPEN) {
      reply(id, { error: { code: OVER_LIMIT, message: tooManyOpen(server) } });
      return;
    }
    const asking = new AbortController();
    this.#open.set(id, asking);
    try {
      const signals = signal === undefined ? [asking.signal] : [asking.signal, signal];
      reply(id, { result: await askWithin(patience, client, { method, params, signals }) });
    } catch (thrown) {
      const message = thrown instanceof Error ? thrown.message : String(thrown);
      reply(id, { error: { code: -32_603, message } });
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

  #whyNobody(method: ClientMethod): string {
    return this.#options.underWay().length === 0 ? nobodyCalls(method) : nobodyToAsk(method);
  }

  close(reason: Error): void {
    for (const asking of this.#open.values()) asking.abort(reason);
    this.#open.clear();
  }
}

/** What was found out about how a server talks, so that it need not be found out at every start. */
export interface Verdict {
  readonly era: "modern" | "legacy";
  /** What a server of the stateless protocol said about itself. */
  readonly discover?: DiscoverResult;
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
  if (verdict.era === "legacy" && Date.now() - verdict.at > DAY) return undefined;
  if (verdict.era === "modern" && verdict.discover === undefined) return undefined;
  return verdict;
}

export function fingerprintOf({ type, command, args, url, cwd, toolrack }: ServerEntry): string {
  return hashValue([type, command, args, url, cwd, toolrack?.install]);
}

/** A request under way over HTTP, and what is known of the answer that it is being given. */
export interface Answering {
  readonly request: LaneRequest;
  /** The status of the answer. */
  status?: number;
  /** The answer is a stream, whose end is told of. Any other has ended when it was read. */
  isStream?: true;
  /** Why the stream of the answer ended too early, when we know. */
  problem?: string;
}
