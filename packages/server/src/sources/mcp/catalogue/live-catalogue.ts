import type { ListName, UpstreamSession } from "../protocol/upstream-session.ts";
import { type Catalogue, changedLists, emptyCatalogue } from "./catalogue.ts";
import { readCatalogue } from "./read-catalogue.ts";

const allLists: readonly ListName[] = ["tools", "prompts", "resources"];

export interface LiveCatalogueParts {
  /** From an earlier time. */
  readonly known: Catalogue | undefined;
  /** In milliseconds, for each list. */
  readonly limit: () => number;
  readonly onProblem: (text: string) => void;
  /** Shows what is new. What it throws for is not taken over. */
  readonly onChange: (catalogue: Catalogue, changed: readonly ListName[]) => void;
}

/** What a server offers, as it was last read. */
export class LiveCatalogue {
  readonly #parts: LiveCatalogueParts;
  #current: Catalogue;

  constructor(parts: LiveCatalogueParts) {
    this.#parts = parts;
    this.#current = parts.known ?? emptyCatalogue;
  }

  get current(): Catalogue {
    return this.#current;
  }

  read(session: UpstreamSession): Promise<Catalogue> {
    const { limit, onProblem } = this.#parts;
    return readCatalogue(session, { limit: limit(), before: this.#current, onProblem });
  }

  /** What cannot be shown is not taken over: then what was shown before stays. */
  take(catalogue: Catalogue, changed: readonly ListName[] = allLists): void {
    const before = this.#current;
    this.#current = catalogue;
    try {
      this.#parts.onChange(catalogue, changed);
    } catch (thrown) {
      this.#current = before;
      throw thrown;
    }
  }

  /** Reads everything again. What was read over a session that is used no longer when it comes counts for nothing. */
  async update(session: UpstreamSession, isUsed: () => boolean): Promise<void> {
    const before = this.#current;
    const catalogue = await this.read(session);
    if (!isUsed()) return;
    const changed = changedLists(before, catalogue);
    if (changed.length > 0) this.take(catalogue, changed);
    else this.#current = catalogue;
  }
}
