import type { JsonValue, StatementParameters } from "./statement.ts";

export type Dialect = "sqlite" | "postgres" | "mysql";

/**
 * Texts, quoted names and comments, in which a placeholder means nothing, and then the placeholders themselves: `named`
 * holds a name, `numbered` a number, and `next` stands for the next value. What is not closed reaches to the end: that
 * is how databases read it, and it keeps the search linear.
 */
const tokens: Readonly<Record<Dialect, RegExp>> = {
  sqlite:
    /'(?:[^']|'')*(?:'|$)|"(?:[^"]|"")*(?:"|$)|`(?:[^`]|``)*(?:`|$)|\[[^\]]*(?:\]|$)|--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|[?$](?<numbered>\d+)|[:@$](?<named>[A-Za-z_]\w*)|(?<next>\?)/g,
  // After a word, a number or a bracket the colon belongs to an array slice.
  postgres:
    /\b[eE]'(?:[^'\\]|\\[\s\S]|'')*(?:'|$)|'(?:[^']|'')*(?:'|$)|"(?:[^"]|"")*(?:"|$)|\$(?<tag>[A-Za-z_]\w*)?\$[\s\S]*?(?:\$\k<tag>\$|$)|--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|::|\$(?<numbered>\d+)|(?<![\w\][)]):(?<named>[A-Za-z_]\w*)/g,
  mysql:
    /'(?:[^'\\]|\\[\s\S]|'')*(?:'|$)|"(?:[^"\\]|\\[\s\S]|"")*(?:"|$)|`(?:[^`]|``)*(?:`|$)|(?:#|--(?=\s|$))[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|:(?<named>[A-Za-z_]\w*)|(?<next>\?)/g,
};

/** How each dialect writes the placeholder for the value at a position that counts from 1. */
const written: Readonly<Record<Dialect, (position: number) => string>> = {
  sqlite: (position) => `?${position}`,
  postgres: (position) => `$${position}`,
  mysql: () => "?",
};

export interface BoundSql {
  readonly sql: string;
  readonly values: readonly JsonValue[];
}

/**
 * The statement with placeholders in the dialect's own form, and the values in their order. Refuses parameters that do
 * not fit: some databases would otherwise fill the gap with NULL and carry on.
 */
export function bindParameters(dialect: Dialect, sql: string, params: StatementParameters): BoundSql {
  return isList(params) ? bindList(dialect, sql, params) : bindNames(dialect, sql, params);
}

function bindNames(dialect: Dialect, sql: string, params: Readonly<Record<string, JsonValue>>): BoundSql {
  const values: JsonValue[] = [];
  const positions = new Map<string, number>();
  const bound = sql.replace(tokens[dialect], (token, ...rest) => {
    const { named, numbered, next } = groupsOf(rest);
    if (numbered !== undefined || next !== undefined) {
      throw new Error(
        `The statement uses ${token}, so params must be an array with a value for each placeholder.`,
      );
    }
    if (named === undefined) return token;
    if (!Object.hasOwn(params, named)) {
      throw new Error(`The statement uses ${token}, but params has no "${named}". Add it to params.`);
    }
    // MySQL's placeholders have no numbers, so every use needs a value of its own.
    const known = dialect === "mysql" ? undefined : positions.get(named);
    const position = known ?? values.push(params[named]!);
    positions.set(named, position);
    return written[dialect](position);
  });
  const unused = Object.keys(params).filter((name) => !positions.has(name));
  if (unused.length === 0) return { sql: bound, values };
  throw new Error(
    `params has ${unused.map((name) => `"${name}"`).join(", ")}, which the statement does not use.`,
  );
}

function bindList(dialect: Dialect, sql: string, params: readonly JsonValue[]): BoundSql {
  let count = 0;
  const bound = sql.replace(tokens[dialect], (token, ...rest) => {
    const { named, numbered, next } = groupsOf(rest);
    if (named !== undefined) {
      throw new Error(
        `The statement uses ${token}, so params must be an object, for example {"${named}": …}.`,
      );
    }
    if (next !== undefined) count++;
    if (numbered === undefined) return token;
    count = Math.max(count, Number(numbered));
    return written[dialect](Number(numbered));
  });
  if (count === params.length) return { sql: bound, values: params };
  throw new Error(
    `The statement has ${count} placeholders, but params has ${params.length} values. Give one for each.`,
  );
}

interface TokenGroups {
  readonly named?: string;
  readonly numbered?: string;
  readonly next?: string;
}

/** The named groups are the last argument that `replace` gives. */
function groupsOf(rest: readonly unknown[]): TokenGroups {
  return rest.at(-1) as TokenGroups;
}

function isList(params: StatementParameters): params is readonly JsonValue[] {
  return Array.isArray(params);
}
