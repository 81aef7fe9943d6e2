import type { CallClient, ClientMethod } from "@toolrack/core";
import {
  askWithin,
  canAnswer,
  cannotAsk,
  MOST_OPEN,
  nobodyCalls,
  nobodyToAsk,
  tooManyOpen,
} from "./ask-caller.ts";
import type { Message } from "./json-rpc.ts";

/** A request under way, as far as a question of the server may belong to it. */
export interface Asked {
  readonly client?: CallClient | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Is told what the server logs while it works on this. */
  readonly onLog?: (params: Message) => void;
}

export interface ServerQuestionsOptions {
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
