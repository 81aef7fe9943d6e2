import { writtenForms } from "./written-forms.ts";

/** Where secret values come from. Asked often, so it should not do more than hand out what it has. */
export type SecretSource = () => Iterable<string>;

/** All secret values that a process knows, in every form in which they may be written. */
export class MaskedValues {
  readonly #sources: readonly SecretSource[];
  #plain: readonly string[] = [];
  #forms: readonly string[] = Object.freeze([]);

  constructor(...sources: readonly SecretSource[]) {
    this.#sources = sources;
  }

  /** The same array until a value comes or goes. */
  readonly list = (): readonly string[] => {
    if (this.#isSame()) return this.#forms;
    this.#plain = this.#sources.flatMap((source) => [...source()]);
    this.#forms = Object.freeze([...new Set(this.#plain.flatMap(writtenForms))]);
    return this.#forms;
  };

  /** Looked at where they are: this is asked several times in every call, and nearly always answered with yes. */
  #isSame(): boolean {
    let at = 0;
    for (const source of this.#sources) {
      for (const value of source()) if (value !== this.#plain[at++]) return false;
    }
    return at === this.#plain.length;
  }
}
