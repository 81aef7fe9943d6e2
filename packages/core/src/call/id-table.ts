interface Entry<Value, Id> {
  id: Id | undefined;
  hash: number;
  value: Value | undefined;
  next: Entry<Value, Id> | undefined;
}

const FEWEST_BUCKETS = 16;

/**
 * Values by id, for entries that come and go with every call. A `Map` is no good for that. Whenever it makes room, V8
 * links its old table, with all that was in it, to the new one: once one such table is old, everything that is ever put
 * into the map stays in memory until the next full collection, and is copied about until then. And V8 enters every text
 * that is looked up in a table of its own first. Both cost more than the calls themselves.
 */
export class IdTable<Value, Id extends string | number = string> {
  #buckets = emptyBuckets<Value, Id>(FEWEST_BUCKETS);
  #size = 0;
  /** An entry that was deleted, for the next one: mostly one call comes after another. */
  #spare: Entry<Value, Id> | undefined;

  get size(): number {
    return this.#size;
  }

  get(id: Id): Value | undefined {
    return this.#size === 0 ? undefined : this.#find(id)?.value;
  }

  set(id: Id, value: Value): void {
    const known = this.#size === 0 ? undefined : this.#find(id);
    if (known !== undefined) {
      known.value = value;
      return;
    }
    if (this.#size === this.#buckets.length) this.#grow();
    this.#size++;
    this.#put(this.#entry(id, hashOf(id), value));
  }

  /** Says whether it was there. */
  delete(id: Id): boolean {
    if (this.#size === 0) return false;
    const at = this.#bucketOf(hashOf(id));
    let before: Entry<Value, Id> | undefined;
    for (let entry = this.#buckets[at]; entry !== undefined; before = entry, entry = entry.next) {
      if (entry.id !== id) continue;
      if (before === undefined) this.#buckets[at] = entry.next;
      else before.next = entry.next;
      // What is left of it must hold on to nothing.
      entry.id = undefined;
      entry.value = undefined;
      entry.next = undefined;
      this.#spare = entry;
      this.#size--;
      return true;
    }
    return false;
  }

  clear(): void {
    this.#buckets = emptyBuckets(FEWEST_BUCKETS);
    this.#size = 0;
  }

  /** All that are there now, in no order, whatever comes and goes while they are looked at. */
  values(): Value[] {
    const values: Value[] = [];
    for (let entry of this.#buckets) {
      // An entry in a bucket has its value.
      for (; entry !== undefined; entry = entry.next) values.push(entry.value as Value);
    }
    return values;
  }

  #find(id: Id): Entry<Value, Id> | undefined {
    let entry = this.#buckets[this.#bucketOf(hashOf(id))];
    while (entry !== undefined && entry.id !== id) entry = entry.next;
    return entry;
  }

  #entry(id: Id, hash: number, value: Value): Entry<Value, Id> {
    const spare = this.#spare;
    if (spare === undefined) return { id, hash, value, next: undefined };
    this.#spare = undefined;
    spare.id = id;
    spare.hash = hash;
    spare.value = value;
    return spare;
  }

  #put(entry: Entry<Value, Id>): void {
    const at = this.#bucketOf(entry.hash);
    entry.next = this.#buckets[at];
    this.#buckets[at] = entry;
  }

  #bucketOf(hash: number): number {
    return hash & (this.#buckets.length - 1);
  }

  #grow(): void {
    const before = this.#buckets;
    this.#buckets = emptyBuckets(before.length * 2);
    for (let entry of before) {
      while (entry !== undefined) {
        const { next }: Entry<Value, Id> = entry;
        this.#put(entry);
        entry = next;
      }
    }
  }
}

function emptyBuckets<Value, Id>(count: number): (Entry<Value, Id> | undefined)[] {
  return new Array(count).fill(undefined);
}

/** The id that was asked for last: one call is looked up in several tables in a row. */
let lastId: string | number = "";
let lastHash = 0;

function hashOf(id: string | number): number {
  if (typeof id === "number") return Math.imul(id | 0, SPREAD) >>> 12;
  if (id === lastId) return lastHash;
  let hash = id.length;
  const first = Math.max(0, id.length - MOST_HASHED);
  for (let at = first; at < id.length; at++) hash = (Math.imul(hash, 31) + id.charCodeAt(at)) | 0;
  hash = Math.imul(hash, SPREAD) >>> 12;
  if (first === 0) {
    lastId = id;
    lastHash = hash;
  }
  return hash;
}

/** Spreads what differs in a few bits over all of them; buckets are told apart by the last. */
const SPREAD = 0x9e3779b1;
/** Characters at the end of an id that are looked at: some may be as long as whoever chose them liked. */
const MOST_HASHED = 64;
