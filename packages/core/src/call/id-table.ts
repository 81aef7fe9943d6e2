/** How many entries a map takes before another one takes its place. */
const GENERATION = 1024;

/**
 * Values by id, for entries that come and go with every call. One `Map` is no good for that: whenever it makes room, V8
 * links its old table, with all that is in it, to the new one. Once one such table is old, everything that was ever in
 * the map stays in memory until the next full collection, and is copied about until then, which costs more than the
 * calls themselves. So a map is left after a while, long before any of its tables grows old, and what is still in it
 * moves on.
 */
export class IdTable<Value, Id extends string | number = string> {
  #young = new Map<Id, Value>();
  #old = new Map<Id, Value>();
  #taken = 0;

  get size(): number {
    return this.#young.size + this.#old.size;
  }

  get(id: Id): Value | undefined {
    return this.#young.get(id) ?? this.#old.get(id);
  }

  set(id: Id, value: Value): void {
    if (this.#taken >= GENERATION && this.#taken >= 2 * this.size) this.#leave();
    if (this.#old.size > 0) this.#old.delete(id);
    this.#young.set(id, value);
    this.#taken++;
  }

  /** Says whether it was there. */
  delete(id: Id): boolean {
    return this.#young.delete(id) || this.#old.delete(id);
  }

  #leave(): void {
    const remaining = this.#old;
    this.#old = this.#young;
    this.#young = remaining.size === 0 ? new Map() : new Map(remaining);
    this.#taken = this.#young.size;
  }
}
