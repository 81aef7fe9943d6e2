import { v7 as uuid } from "uuid";
import type { TurnEvent } from "./turn-event.ts";

/** One thing that happened, numbered from 1. */
export interface FeedEntry {
  readonly number: number;
  readonly type: TurnEvent["type"];
  readonly data: TurnEvent;
}

/** What happens in one turn, for readers that may come late or come back. The oldest entries give way. */
export class TurnFeed {
  /** No other feed has it, not even one of the same turn in another process, which counts differently. */
  readonly id = uuid();
  readonly #entries: FeedEntry[] = [];
  readonly #listeners = new Set<(entry: FeedEntry) => void>();
  readonly #most: number;
  #last = 0;

  constructor(most = 5_000) {
    this.#most = most;
  }

  /** The number of the latest entry. */
  get last(): number {
    return this.#last;
  }

  /** Whether anybody follows it. */
  get isFollowed(): boolean {
    return this.#listeners.size > 0;
  }

  publish(type: TurnEvent["type"], data: TurnEvent): void {
    const entry = { number: ++this.#last, type, data };
    this.#entries.push(entry);
    // In large steps, because each moves all that is left.
    if (this.#entries.length > this.#most * 1.25) this.keep(this.#most);
    for (const listener of this.#listeners) listener(entry);
  }

  /** Forgets all but the latest. */
  keep(count: number): void {
    this.#entries.splice(0, Math.max(0, this.#entries.length - count));
  }

  /** Whether all that came after the number is still known. */
  knowsAfter(number: number): boolean {
    const oldest = this.#entries[0]?.number ?? this.#last + 1;
    return number <= this.#last && number + 1 >= oldest;
  }

  /** Tells what came after the number, then all that comes, until the function that it returns is called. */
  follow(after: number, listener: (entry: FeedEntry) => void): () => void {
    for (const entry of this.#entries) if (entry.number > after) listener(entry);
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}
