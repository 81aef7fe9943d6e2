/** Texts by key, each in English and in Chinese. */
export interface Catalogue {
  readonly [key: string]: readonly [english: string, chinese: string] | Catalogue;
}

/** The texts of a catalogue in one language. */
export type Texts<Part> = {
  readonly [Key in keyof Part]: Part[Key] extends readonly [string, string] ? string : Texts<Part[Key]>;
};

export function textsOf<Part extends Catalogue>(catalogue: Part, language: 0 | 1): Texts<Part> {
  const texts = Object.entries(catalogue).map(([key, part]) => [
    key,
    isText(part) ? part[language] : textsOf(part, language),
  ]);
  return Object.fromEntries(texts) as Texts<Part>; // Every key stays, and every pair becomes one text.
}

function isText(part: Catalogue[string]): part is readonly [string, string] {
  return Array.isArray(part);
}
