import { homedir } from "node:os";
import { basename } from "node:path";

/** Where the values of variables come from. */
export interface Surroundings {
  /** The workspace. */
  readonly directory: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
  secret(name: string): Promise<string | undefined>;
}

/** Defaults inside defaults. Nobody writes more by hand. */
const DEEPEST = 16;

/**
 * The text with its variables replaced: `${NAME}`, `${NAME:-default}`, `${env:NAME}`, `${workspaceFolder}`,
 * `${workspaceFolderBasename}`, `${userHome}`, `${secret:NAME}`. A default may hold variables in turn, which are only
 * looked up where it is used. Throws for one that has no value: a server must never be sent the variable itself. `where`
 * is the key that the text stands at.
 */
export function expand(text: string, where: string, surroundings: Surroundings): Promise<string> {
  return expandInside(text, where, surroundings, DEEPEST);
}

async function expandInside(
  text: string,
  where: string,
  surroundings: Surroundings,
  depth: number,
): Promise<string> {
  let expanded = "";
  let from = 0;
  for (let at = text.indexOf("${"); at !== -1; at = text.indexOf("${", from)) {
    const end = endOf(text, at, where);
    expanded += text.slice(from, at);
    const inside = text.slice(at + 2, end);
    const { value, fallback } = await lookUp(inside, where, surroundings);
    if (value === undefined && depth === 0) {
      throw new Error(`${where} has more than ${DEEPEST} defaults inside each other. Write fewer.`);
    }
    expanded += value ?? (await expandInside(fallback ?? "", where, surroundings, depth - 1));
    from = end + 1;
  }
  return expanded + text.slice(from);
}

/** Where the variable that begins at `start` has its closing bracket. Others may stand inside. */
function endOf(text: string, start: number, where: string): number {
  const signs = /\$\{|\}/g;
  signs.lastIndex = start;
  let open = 0;
  for (let found = signs.exec(text); found !== null; found = signs.exec(text)) {
    open += found[0] === "}" ? -1 : 1;
    if (open === 0) return found.index;
  }
  throw new Error(
    `${where} has a "\${" without the "}" that ends it. Write \${NAME}; a text that is to hold "\${" itself can be kept as a secret and written \${secret:NAME}.`,
  );
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

/** A value, or the text to be used where there is none. */
interface Found {
  readonly value?: string;
  readonly fallback?: string;
}

async function lookUp(inside: string, where: string, surroundings: Surroundings): Promise<Found> {
  const { directory, environment } = surroundings;
  if (inside === "workspaceFolder") return { value: directory };
  if (inside === "workspaceFolderBasename") return { value: basename(directory) };
  if (inside === "userHome") return { value: homedir() };
  const isSecret = inside.startsWith("secret:");
  const [name = "", fallback] = split(inside.replace(/^(?:env|secret):/, ""));
  if (isSecret && fallback === undefined && name !== "") {
    const secret = await surroundings.secret(name);
    if (secret !== undefined) return { value: secret };
    throw new Error(
      `${where} uses the secret "${name}", which is not set. Set it: toolrack secrets set ${name}`,
    );
  }
  const value = !isSecret && Object.hasOwn(environment, name) ? environment[name] : undefined;
  if (value !== undefined && (value !== "" || fallback === undefined)) return { value };
  const problem = problemOf(inside, name, isSecret);
  if (problem !== undefined) throw new Error(`${where} uses ${problem}`);
  if (fallback !== undefined) return { fallback };
  throw new Error(
    `${where} uses \${${inside}}, but the variable ${name} is not set. Set it in the environment or in .env, or write \${${name}:-default}.`,
  );
}

/** What is wrong with how a variable is written, of which no value could be found. A default in it may be a secret. */
function problemOf(inside: string, name: string, isSecret: boolean): string | undefined {
  if (name === "") {
    return `\${${inside.replace(/:-.*$/s, ":-…")}}, which has no name. Write \${NAME} for a variable of the environment or \${secret:NAME} for a secret.`;
  }
  if (isSecret) {
    return `\${secret:${name}:-…}: a secret has no default. Write \${secret:${name}}, and set it: toolrack secrets set ${name}`;
  }
  if (name.includes("${")) {
    return `a variable inside the name of another one. Only a default may hold variables: \${NAME:-\${OTHER}}.`;
  }
  const [, editor] = /^(input|command|config|extension\w*|workspaceFolder):/.exec(name) ?? [];
  if (editor !== undefined) {
    return `\${${name}}, which only an editor such as VS Code knows. Write the value itself, or keep it as a secret and write \${secret:NAME}.`;
  }
  // As it is in a shell: `:?`, `:=`, `:+`, `-`, `#`, `%`, `/`, `^`, `,`, `@` and what follows them.
  const [, plain, sign] = /^(\w+)(:?[^\w\s.()]|:)/.exec(name) ?? [];
  if (plain === undefined) return undefined;
  return `\${${plain}${sign}…}, a form that is not known here. Write \${${plain}}, which is an error where ${plain} is not set, or \${${plain}:-default}.`;
}

function split(text: string): [string, string?] {
  const at = text.indexOf(":-");
  return at === -1 ? [text] : [text.slice(0, at), text.slice(at + 2)];
}
