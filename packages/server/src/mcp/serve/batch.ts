import { cancellationOf, errorText, type RpcId, type RpcMessage, reusedId } from "../wire/index.ts";
import type { AnswerText, Reply, RequestTable } from "./session.ts";
import type { WriteFlow } from "./writer.ts";

const MOST_IN_BATCH = 100;

/** Why the whole batch is refused; undefined when its messages may be handled one by one. */
export function batchProblem({ length }: readonly unknown[]): string | undefined {
  if (length <= MOST_IN_BATCH) return undefined;
  return `A batch may have ${MOST_IN_BATCH} messages, and this one has ${length}. Send them in several.`;
}

/** Gathers the answers to a batch, and calls `done` when its last request has been answered or withdrawn. */
export class BatchReply implements Reply {
  /** How many requests of the batch were started. */
  begun = 0;
  readonly answers: string[] = [];
  readonly headers: Reply["headers"];
  readonly connection: Reply["connection"];
  readonly #connection: Reply;
  readonly #done: () => void;
  /** How many requests are open, and one more until `take` has handled all messages. */
  #waiting = 1;

  /** Notifications and questions go to `connection` at once. */
  constructor(connection: Reply, done: () => void) {
    this.headers = connection.headers;
    this.connection = connection.connection;
    this.#connection = connection;
    this.#done = done;
  }

  /**
   * Handles the messages in their order. `open` has the client's open requests outside the batch; a request
   * whose id is in use is refused. A request that a later message of the batch cancels is not started.
   */
  take(
    messages: readonly RpcMessage[],
    open: RequestTable | undefined,
    handle: (message: RpcMessage) => void,
  ): void {
    const cancelledLater = new Set<RpcId>();
    const withdrawn = new Set<RpcMessage>();
    for (const message of messages.toReversed()) {
      const cancelled = cancellationOf(message)?.id;
      if (cancelled !== undefined) cancelledLater.add(cancelled);
      if (message.kind === "request" && cancelledLater.has(message.id)) withdrawn.add(message);
    }
    const seen = new Set<RpcId>();
    for (const message of messages) {
      if (message.kind === "request") {
        const { id } = message;
        const isReused = seen.has(id) || open?.entries.has(id);
        seen.add(id);
        if (isReused) this.answers.push(errorText(id, reusedId(id)));
        if (isReused || withdrawn.has(message)) continue;
        this.begun++;
        this.#waiting++;
      }
      handle(message);
    }
    this.end(undefined);
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

  end(answer: AnswerText | undefined): void {
    if (answer !== undefined) this.answers.push(typeof answer === "string" ? answer : answer.join(""));
    this.#waiting--;
    if (this.#waiting === 0) this.#done();
  }
}
