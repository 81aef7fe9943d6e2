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

/** Why the whole batch is refused; undefined when its messages may be handled one by one. */
export function batchProblem({ length }: readonly unknown[]): string | undefined {
  if (length <= MOST_IN_BATCH) return undefined;
  return `A batch may have ${MOST_IN_BATCH} messages, and this one has ${length}. Send them in several.`;
}

interface BatchTaker {
  /** The open requests outside the batch. */
  readonly requests: RequestTable | undefined;
  begin(request: RpcRequest): void;
  handleNonRequest(message: Exclude<RpcMessage, RpcRequest>): void;
}

/** Gathers the answers to the requests of a batch, until the last of them has been answered or withdrawn. */
export class BatchReply implements Reply {
  /** How many requests were started. */
  begun = 0;
  readonly answers: string[] = [];
  readonly #connection: Reply;
  readonly #done: () => void;
  #waiting = 1;

  /** Notifications and questions go to `connection` at once. */
  constructor(connection: Reply, done: () => void) {
    this.#connection = connection;
    this.#done = done;
  }

  /**
   * Handles the messages in their order. Requests whose id is in use are refused. Requests that a later message of the
   * batch cancels are not started.
   */
  take(messages: readonly RpcMessage[], { requests, begin, handleNonRequest }: BatchTaker): void {
    const cancelledLater = new Set<RpcId>();
    const withdrawn = new Set<RpcMessage>();
    for (const message of messages.toReversed()) {
      const cancelled = cancellationOf(message)?.id;
      if (cancelled !== undefined) cancelledLater.add(cancelled);
      if (message.kind === "request" && cancelledLater.has(message.id)) withdrawn.add(message);
    }
    const seen = new Set<RpcId>();
    for (const message of messages) {
      if (message.kind !== "request") handleNonRequest(message);
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
    return this.#connection.flow;
  }

  waitForRoom(): Promise<void> | undefined {
    return this.#connection.waitForRoom();
  }

  send(message: object): void {
    this.#connection.send(message);
  }

  answer(_: RpcId, message: string | readonly (string | Buffer)[]): void {
    this.answers.push(typeof message === "string" ? message : message.join(""));
    this.#settle();
  }

  endWithoutAnswer(): void {
    this.#settle();
  }

  #settle(): void {
    this.#waiting--;
    if (this.#waiting === 0) this.#done();
  }
}
