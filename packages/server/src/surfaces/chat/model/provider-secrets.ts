import { redact } from "@toolrack/core";
import { writtenForms } from "../../../secrets/written-forms.ts";
import type { ModelEndpoint } from "./endpoint.ts";

/** What must not be shown of a provider, as far as it is filled in. */
export interface ProviderSecrets {
  readonly baseURL: string;
  readonly apiKey: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  /** What the references in all of them stood for. */
  readonly filled: readonly string[];
}

/** A shorter word of a header stands in texts by chance. */
const SHORTEST_WORD = 8;

/** The secret values in every form in which a provider may repeat them. */
export function secretsOf({ baseURL, apiKey, headers, filled }: ProviderSecrets): string[] {
  const values = Object.values(headers);
  // Of `Bearer KEY`, a provider may repeat the key alone.
  const words = values.flatMap((value) => value.split(/\s+/)).filter((word) => word.length >= SHORTEST_WORD);
  const query = [...new URL(baseURL).searchParams.values()];
  const plain = new Set([
    ...(apiKey === undefined ? [] : [apiKey]),
    ...values,
    ...words,
    ...query,
    ...filled,
  ]);
  return [...new Set([...plain].flatMap(writtenForms))];
}

/** What somebody may be shown of a provider's words: first masked, then cut, so that no half of a secret is left. */
export function shownWords(
  { secrets }: Pick<ModelEndpoint, "secrets">,
  text: string,
  longest: number,
): string {
  const masked = String(redact(text, { values: secrets })).trim();
  return masked.length <= longest ? masked : `${masked.slice(0, longest).toWellFormed()}…`;
}
