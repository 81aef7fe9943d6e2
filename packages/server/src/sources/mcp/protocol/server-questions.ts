import type { CallClient, ClientMethod } from "@toolrack/core";
import { cannotAsk } from "./ask-caller.ts";
import type { Message } from "./json-rpc.ts";

/** A request under way, as far as a question of the server may belong to it. */
export interface Asked {
  readonly client?: CallClient | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface ServerQuestionsOptions {
  /** The request on whose own stream the message came that is being looked at; undefined where streams are shared. */
  readonly current: () => Asked | undefined;
  /** Every request under way that can lead to questions. */
  readonly underWay: () => readonly Asked[];
  readonly roots: readonly object[];
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
  /** The server has asked something that only its being alone could assign. */
  isAskedWithoutStream = false;

  constructor(options: ServerQuestionsOptions) {
    this.#options = options;
  }

  async take(id: unknown, method: ClientMethod, params: Message): Promise<void> {
    const { current, roots, reply } = this.#options;
    if (current() === undefined && method !== "roots/list") this.isAskedWithoutStream = true;
    const { client, signal } = this.belongsTo() ?? {};
    if (client === undefined || !client.can(method)) {
      if (method === "roots/list") reply(id, { result: { roots } });
      else reply(id, { error: { code: -32_601, message: cannotAsk(method) } });
      return;
    }
    const asking = new AbortController();
    this.#open.set(id, asking);
    try {
      const either = signal === undefined ? asking.signal : AbortSignal.any([asking.signal, signal]);
      reply(id, { result: await client.request(method, params, either) });
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
   * several it is nobody's, because it might reach the wrong person.
   */
  belongsTo(): Asked | undefined {
    const own = this.#options.current();
    if (own !== undefined) return own;
    const candidates = this.#options.underWay();
    return candidates.length === 1 ? candidates[0] : undefined;
  }

  close(reason: Error): void {
    for (const asking of this.#open.values()) asking.abort(reason);
    this.#open.clear();
  }
}
