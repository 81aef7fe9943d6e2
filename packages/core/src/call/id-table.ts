/** How many entries a map takes before another one takes its place. */
const GENERATION = 1024;

/**
 * Values by id, for entries that come and go with every call. One `Map` is no good for that: whenever it makes room, V8
 * links its old table, with all that is in it, to the new one. Once one such table is old, everything that was ever in
 * the map stays in memory until the next full collection, and is copied about until then, which costs more than the
 * calls themselves. So a map is left after a while, long before any of its tables grows old, and what is still in it
 * moves on. An entry that comes when there is no other needs no map at all, which is how most calls come.
 */
export class IdTable<Value, Id extends string | number = string> {
  /** The entry that needs no map; there is none when the id is undefined. */
  #onlyId: Id | undefined;
  #only: Value | undefined;
  #young = new Map<Id, Value>();
  #old = new Map<Id, Value>();
  #taken = 0;

  get size(): number {
    return this.#young.size + this.#old.size + (this.#onlyId === undefined ? 0 : 1);
  }

  get(id: Id): Value | undefined {
    if (id === this.#onlyId) return this.#only;
    if (this.#young.size === 0 && this.#old.size === 0) return undefined;
    return this.#young.get(id) ?? this.#old.get(id);
  }

  set(id: Id, value: Value): void {
    if (id === this.#onlyId || this.size === 0) {
      this.#onlyId = id;
      this.#only = value;
      return;
    }
    if (this.#taken >= GENERATION && this.#taken >= 2 * this.size) this.#leave();
    if (this.#old.size > 0) this.#old.delete(id);
    this.#young.set(id, value);
    this.#taken++;
  }

  /** Says whether it was there. */
  delete(id: Id): boolean {
    if (id === this.#onlyId) {
      this.#onlyId = undefined;
      this.#only = undefined;
      return true;
    }
    return (this.#young.size > 0 && this.#young.delete(id)) || (this.#old.size > 0 && this.#old.delete(id));
  }

  #leave(): void {
    const remaining = this.#old;
    this.#old = this.#young;
    this.#young = remaining.size === 0 ? new Map() : new Map(remaining);
    this.#taken = this.#young.size;
  }
}
