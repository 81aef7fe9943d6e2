/**
 * A map whose copies cost little however large it is: a copy shares the large part, which never changes any more, and
 * has its own changes beside it. Iterates like a `Map`: in order of insertion, and a value that is replaced keeps its
 * place.
 */
export class LayeredMap<Key, Value> {
  /** Shared with copies once `#isShared`; changed in place before that. */
  #base = new Map<Key, Value>();
  #isShared = false;
  /** Whether there may be changes beside the large part. */
  #isChanged = false;
  readonly #added = new Map<Key, Value>();
  readonly #replaced = new Map<Key, Value>();
  readonly #removed = new Set<Key>();

  copy(): LayeredMap<Key, Value> {
    const copy = new LayeredMap<Key, Value>();
    const changes = this.#added.size + this.#replaced.size + this.#removed.size;
    // With many changes, a new large part costs less than asking for the changes at every look-up.
    if (changes * MOST_CHANGES > this.#base.size) {
      copy.#base = new Map(this);
      return copy;
    }
    this.#isShared = true;
    copy.#base = this.#base;
    copy.#isShared = true;
    copy.#isChanged = this.#isChanged;
    for (const [key, value] of this.#added) copy.#added.set(key, value);
    for (const [key, value] of this.#replaced) copy.#replaced.set(key, value);
    for (const key of this.#removed) copy.#removed.add(key);
    return copy;
  }

  get size(): number {
    return this.#base.size - this.#removed.size + this.#added.size;
  }

  get(key: Key): Value | undefined {
    return this.#isChanged ? this.#find(key) : this.#base.get(key);
  }

  #find(key: Key): Value | undefined {
    if (this.#added.has(key)) return this.#added.get(key);
    if (this.#replaced.has(key)) return this.#replaced.get(key);
    return this.#removed.has(key) ? undefined : this.#base.get(key);
  }

  set(key: Key, value: Value): void {
    if (!this.#isShared) {
      this.#base.set(key, value);
      return;
    }
    this.#isChanged = true;
    if (this.#base.has(key) && !this.#removed.has(key)) this.#replaced.set(key, value);
    else this.#added.set(key, value);
  }

  delete(key: Key): void {
    if (!this.#isShared) {
      this.#base.delete(key);
      return;
    }
    this.#isChanged = true;
    if (this.#added.delete(key)) return;
    this.#replaced.delete(key);
    if (this.#base.has(key)) this.#removed.add(key);
  }

  *[Symbol.iterator](): Generator<[Key, Value]> {
    for (const entry of this.#base) {
      const [key] = entry;
      if (this.#removed.has(key)) continue;
      // The key is known to be there, so its value has the right type even where that allows undefined.
      yield this.#replaced.has(key) ? [key, this.#replaced.get(key) as Value] : entry;
    }
    yield* this.#added;
  }

  *keys(): Generator<Key> {
    for (const [key] of this) yield key;
  }

  *values(): Generator<Value> {
    for (const [, value] of this) yield value;
  }
}

/** A copy shares the large part while the changes are fewer than one in this many of its members. */
const MOST_CHANGES = 16;
