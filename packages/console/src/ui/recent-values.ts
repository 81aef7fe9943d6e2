import { watch } from "vue";
import { currentSession } from "../api/index.ts";

interface Keeping<Value> {
  readonly most: number;
  /** Values that are in use stay, even if there are too many. */
  readonly isInUse?: (value: Value) => boolean;
  readonly onDrop?: (value: Value) => void;
}

/** Values that outlive their page: the most recently used ones, until the person signs out. */
export class Recent<Value> {
  readonly #values = new Map<string, Value>();
  readonly #keeping: Keeping<Value>;

  constructor(keeping: Keeping<Value>) {
    this.#keeping = keeping;
    watch(
      () => currentSession.refusal,
      (refusal) => {
        if (refusal === "missing") for (const key of this.#values.keys()) this.delete(key);
      },
    );
  }

  get(key: string): Value | undefined {
    return this.#values.get(key);
  }

  set(key: string, value: Value): void {
    this.#values.delete(key);
    this.#values.set(key, value);
    for (const [oldest, known] of this.#values) {
      if (this.#values.size <= this.#keeping.most) return;
      if (this.#keeping.isInUse?.(known) !== true) this.delete(oldest);
    }
  }

  delete(key: string): void {
    const value = this.#values.get(key);
    if (this.#values.delete(key) && value !== undefined) this.#keeping.onDrop?.(value);
  }
}
