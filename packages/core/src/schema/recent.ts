/** A map that keeps the entries used last, for what is worth reusing but not worth keeping for ever. */
export class Recent<Value> {
  readonly #limit: number;
  readonly #entries = new Map<string, Value>();

  constructor(limit: number) {
    this.#limit = limit;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** The value for the key; made, and remembered, when it is not there. */
  get(key: string, make: () => Value): Value {
    let value = this.#entries.get(key);
    if (value === undefined) value = make();
    else this.#entries.delete(key);
    this.#entries.set(key, value);
    if (this.#entries.size > this.#limit) this.#entries.delete(this.#entries.keys().next().value!);
    return value;
  }
}
