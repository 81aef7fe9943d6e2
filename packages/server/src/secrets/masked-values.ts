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
    const plain = this.#sources.flatMap((source) => [...source()]);
    const isSame =
      plain.length === this.#plain.length && plain.every((value, at) => value === this.#plain[at]);
    if (isSame) return this.#forms;
    this.#plain = plain;
    this.#forms = Object.freeze([...new Set(plain.flatMap(writtenForms))]);
    return this.#forms;
  };
}
