import { homedir } from "node:os";
import { basename } from "node:path";

/** Where the values of variables come from. */
export interface Surroundings {
  /** The workspace. */
  readonly directory: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
  secret(name: string): Promise<string | undefined>;
}

const variable = /\$\{([^}]*)\}/g;

/**
 * The text with its variables replaced: `${NAME}`, `${NAME:-default}`, `${env:NAME}`, `${workspaceFolder}`,
 * `${workspaceFolderBasename}`, `${userHome}`, `${secret:NAME}`. Throws for one that has no value: a server must never
 * be sent the variable itself. `where` is the key that the text stands at.
 */
export async function expand(text: string, where: string, surroundings: Surroundings): Promise<string> {
  let expanded = "";
  let from = 0;
  for (const found of text.matchAll(variable)) {
    expanded += text.slice(from, found.index);
    expanded += await lookUp(found[1] ?? "", where, surroundings);
    from = found.index + found[0].length;
  }
  return expanded + text.slice(from);
}

/** The same for every text of a list or an object. */
export async function expandAll<Value extends readonly string[] | Readonly<Record<string, string>>>(
  values: Value,
  where: string,
  surroundings: Surroundings,
): Promise<Value> {
  const entries = Object.entries(values).map(
    async ([key, text]) => [key, await expand(text, `${where}.${key}`, surroundings)] as const,
  );
  const expanded = await Promise.all(entries);
  // The same shape with other texts.
  return (Array.isArray(values) ? expanded.map(([, text]) => text) : Object.fromEntries(expanded)) as Value;
}

async function lookUp(inside: string, where: string, surroundings: Surroundings): Promise<string> {
  const { directory, environment } = surroundings;
  if (inside === "workspaceFolder") return directory;
  if (inside === "workspaceFolderBasename") return basename(directory);
  if (inside === "userHome") return homedir();
  if (inside.startsWith("secret:")) {
    const name = inside.slice("secret:".length);
    const secret = await surroundings.secret(name);
    if (secret !== undefined) return secret;
    throw new Error(
      `${where} uses the secret "${name}", which is not set. Set it: toolrack secrets set ${name}`,
    );
  }
  if (inside.startsWith("input:")) {
    throw new Error(
      `${where} uses \${${inside}}, which an editor would ask for. Keep the value as a secret and write \${secret:NAME}.`,
    );
  }
  const plain = inside.startsWith("env:") ? inside.slice("env:".length) : inside;
  const [name = "", fallback] = split(plain);
  const value = Object.hasOwn(environment, name) ? environment[name] : undefined;
  if (value !== undefined && (value !== "" || fallback === undefined)) return value;
  if (fallback !== undefined) return fallback;
  throw new Error(
    `${where} uses \${${inside}}, but the variable ${name} is not set. Set it in the environment or in .env, or write \${${name}:-default}.`,
  );
}

function split(text: string): [string, string?] {
  const at = text.indexOf(":-");
  return at === -1 ? [text] : [text.slice(0, at), text.slice(at + 2)];
}
