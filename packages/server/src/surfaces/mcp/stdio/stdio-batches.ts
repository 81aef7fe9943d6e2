import { isRecord } from "../../../json/is-record.ts";
import { requestIdOf } from "../request-id-of.ts";
import { reusedId } from "../reused-id.ts";
import { batchTooLong, mostInBatch, siftBatch } from "../sift-batch.ts";

type Id = string | number;

interface Batch {
  readonly answers: string[];
  readonly waiting: Set<Id>;
}

/** The one version of the protocol that has batches; those before and after it have none. */
const BATCHED = "2025-03-26";
const INVALID = -32600;

/** Several messages in one line, whose answers go back in one line too. */
export class StdioBatches {
  readonly #write: (line: string) => void;
  readonly #isUnderWay: (id: Id) => boolean;
  readonly #batches = new Map<Id, Batch>();
  #areAgreedOn = false;

  constructor(write: (line: string) => void, isUnderWay: (id: Id) => boolean) {
    this.#write = write;
    this.#isUnderWay = isUnderWay;
  }

  /** To be given what a client initializes the connection with. */
  agreeOn(params: unknown): void {
    this.#areAgreedOn = isRecord(params) && params.protocolVersion === BATCHED;
  }

  /** The messages of a line that are to be taken one by one; undefined when it is no batch, or none may be sent. */
  open(line: unknown): readonly object[] | undefined {
    if (!this.#areAgreedOn || !Array.isArray(line) || line.length === 0) return undefined;
    if (line.length > mostInBatch) {
      this.#write(refusal(null, { code: INVALID, message: batchTooLong(line.length) }));
      return [];
    }
    const { messages, reused } = siftBatch(line, this.#isUnderWay);
    const objects = messages.filter(isRecord);
    const answers = [
      ...reused.map((id) => refusal(id, reusedId(id))),
      ...messages.filter((message) => !isRecord(message)).map(() => refusal(null, noMessage)),
    ];
    const ids = objects.flatMap((message) => requestIdOf(message) ?? []);
    const batch: Batch = { answers, waiting: new Set(ids) };
    for (const id of ids) this.#batches.set(id, batch);
    this.#writeIfWhole(batch);
    return objects;
  }

  /** Keeps the answer to a request of a batch until all are there. Says whether it is one. */
  take(id: Id, answer: string): boolean {
    const batch = this.#batches.get(id);
    if (batch === undefined) return false;
    batch.answers.push(answer);
    this.giveUp(id);
    return true;
  }

  /** Nobody waits for the answer to this request any more. */
  giveUp(id: Id): void {
    const batch = this.#batches.get(id);
    if (batch === undefined) return;
    this.#batches.delete(id);
    batch.waiting.delete(id);
    this.#writeIfWhole(batch);
  }

  /** No more answers come: those that are there are written. */
  end(): void {
    for (const id of [...this.#batches.keys()]) this.giveUp(id);
  }

  #writeIfWhole({ answers, waiting }: Batch): void {
    if (waiting.size === 0 && answers.length > 0) this.#write(`[${answers.join(",")}]`);
  }
}

const noMessage = { code: INVALID, message: "A member of the batch is not a JSON-RPC message." };

function refusal(id: Id | null, error: object): string {
  return JSON.stringify({ jsonrpc: "2.0", error, id });
}
