/** What this process has promised to write to a database, and a reader of it must see. */
export class PromisedWrites {
  readonly #writers = new Set<PromisedWriter>();

  /** Answers how to take it off again. */
  add(writer: PromisedWriter): () => void {
    this.#writers.add(writer);
    return () => void this.#writers.delete(writer);
  }

  /** To be awaited before calls are read: all of them, or one. Never rejects. */
  async commit(callId?: string): Promise<void> {
    for (const writer of this.#writers) await writer.commit(callId);
  }
}

export interface PromisedWriter {
  /** Resolves when the database has the calls that are safe by now, or only the one that is named. Never rejects. */
  commit(callId?: string): Promise<void>;
}
