/** Finds the value of a secret by its name; undefined when there is none. */
export type ReadSecret = (name: string) => Promise<string | undefined>;

const reference = /\{\{\s*secret:([A-Za-z_][A-Za-z0-9_.-]*)\s*\}\}/g;

export function hasSecretReference(text: string): boolean {
  return text.search(reference) !== -1;
}

/** The text with every `{{secret:NAME}}` replaced by what `toValue` makes of the secret. Throws when one is not set. */
export async function fillSecrets(
  text: string,
  read: ReadSecret,
  toValue: (secret: string) => string = (secret) => secret,
): Promise<string> {
  const values = new Map<string, string>();
  for (const [, name = ""] of text.matchAll(reference)) {
    if (values.has(name)) continue;
    const value = await read(name);
    if (value === undefined) {
      throw new Error(
        `The tool needs the secret ${name}, which is not set. Set it with: toolrack secrets set ${name}`,
      );
    }
    values.set(name, toValue(value));
  }
  return text.replace(reference, (_whole, name: string) => values.get(name) ?? "");
}

/** The same for every value of a map. */
export async function fillSecretValues(
  texts: Readonly<Record<string, string>>,
  read: ReadSecret,
): Promise<Record<string, string>> {
  const filled: Record<string, string> = {};
  for (const [name, text] of Object.entries(texts)) filled[name] = await fillSecrets(text, read);
  return filled;
}

/** The same for every text in a value, however deep. */
export async function fillSecretsWithin<Value>(value: Value, read: ReadSecret): Promise<Value>;
export async function fillSecretsWithin(value: unknown, read: ReadSecret): Promise<unknown> {
  if (typeof value === "string") return fillSecrets(value, read);
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return Promise.all(value.map((member) => fillSecretsWithin(member, read)));
  const entries = Object.entries(value).map(
    async ([name, member]) => [name, await fillSecretsWithin(member, read)] as const,
  );
  return Object.fromEntries(await Promise.all(entries));
}

/** Whether any text in a value refers to a secret. */
export function hasSecretWithin(value: unknown): boolean {
  if (typeof value === "string") return hasSecretReference(value);
  return typeof value === "object" && value !== null && Object.values(value).some(hasSecretWithin);
}
