import {
  cancellationOf,
  errorText,
  type RpcId,
  type RpcMessage,
  type RpcRequest,
  reusedId,
  type WriteFlow,
} from "../wire/index.ts";
import type { Reply, RequestTable } from "./session.ts";

const MOST_IN_BATCH = 100;

/** What is wrong with a batch as a whole; undefined when its messages may be taken one by one. */
export function batchProblem({ length }: readonly unknown[]): string | undefined {
  if (length <= MOST_IN_BATCH) return undefined;
  return `A batch may have ${MOST_IN_BATCH} messages, and this one has ${length}. Send them in several.`;
}

interface BatchTaker {
  /** The requests that are under way beside those of the batch. */
  readonly requests: RequestTable | undefined;
  begin(request: RpcRequest): void;
  hear(message: Exclude<RpcMessage, RpcRequest>): void;
}

/** Gathers the answers to several requests that came at once, until the last of them has been answered or withdrawn. */
export class BatchReply implements Reply {
  /** How many requests were begun. */
  begun = 0;
  readonly answers: string[] = [];
  readonly #via: Reply;
  readonly #done: () => void;
  #waiting = 1;

  /** What is told or asked in between goes `via` another reply. */
  constructor(via: Reply, done: () => void) {
    this.#via = via;
    this.#done = done;
  }

  /**
   * Takes the messages in their order. Requests with an id that another one has are refused; those that the same batch
   * cancels further on are not begun.
   */
  take(messages: readonly RpcMessage[], { requests, begin, hear }: BatchTaker): void {
    const cancelledLater = new Set<RpcId>();
    const withdrawn = new Set<RpcMessage>();
    for (const message of messages.toReversed()) {
      const cancelled = cancellationOf(message)?.id;
      if (cancelled !== undefined) cancelledLater.add(cancelled);
      if (message.kind === "request" && cancelledLater.has(message.id)) withdrawn.add(message);
    }
    const seen = new Set<RpcId>();
    for (const message of messages) {
      if (message.kind !== "request") hear(message);
      else if (seen.has(message.id) || requests?.has(message.id)) {
        this.answers.push(errorText(message.id, reusedId(message.id)));
      } else {
        seen.add(message.id);
        if (withdrawn.has(message)) continue;
        this.begun++;
        this.#waiting++;
        begin(message);
      }
    }
    this.#settle();
  }

  get flow(): WriteFlow | undefined {
    return this.#via.flow;
  }

  turn(): Promise<void> | undefined {
    return this.#via.turn();
  }

  send(message: object): void {
    this.#via.send(message);
  }

  answer(_: RpcId, message: string | readonly (string | Buffer)[]): void {
    this.answers.push(typeof message === "string" ? message : message.join(""));
    this.#settle();
  }

  nothing(): void {
    this.#settle();
  }

  #settle(): void {
    this.#waiting--;
    if (this.#waiting === 0) this.#done();
  }
}
