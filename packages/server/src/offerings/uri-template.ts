/** A template of addresses, by RFC 6570: the text before its first expression, and what follows. */
export interface UriTemplate {
  readonly start: string;
  readonly expressions: readonly UriExpression[];
  /** How many of its characters stand in every address that fits it: the more, the less it claims by chance. */
  readonly literals: number;
}

/** One `{…}`, or one of its variables where each has a place of its own: `{/a,b}` is the same as `{/a}{/b}`. */
export interface UriExpression {
  readonly names: readonly string[];
  /** What it begins with, where it has something. An expression that begins with something may be left out. */
  readonly lead: "" | "?" | "&" | ";" | "/" | "." | "#";
  /** What its text cannot hold. */
  readonly stops: string;
  /** Of `name=value` pairs: what stands between two, and whether they may have other names than these. */
  readonly pairs?: { readonly separator: "&" | ";"; readonly areOpen: boolean };
  /** The text that follows it. */
  readonly literal: string;
}

const LONGEST_TEMPLATE = 1_024;
const MOST_EXPRESSIONS = 32;

/**
 * Undefined for a template by which nothing can be read: one that does not begin with a scheme would claim the addresses
 * of everybody, and where an expression stands behind another without a sign to begin with, nobody could say where the
 * first one ends.
 */
export function parseUriTemplate(template: string): UriTemplate | undefined {
  if (template.length > LONGEST_TEMPLATE) return undefined;
  const [start = "", ...rest] = template.split("{");
  if (!/^[a-z][a-z\d+.-]*:/i.test(start) || rest.length > MOST_EXPRESSIONS) return undefined;
  const expressions: UriExpression[] = [];
  for (const part of rest) {
    const end = part.indexOf("}");
    const parsed = end === -1 ? [] : parseExpression(part.slice(0, end), part.slice(end + 1));
    const [first] = parsed;
    const before = expressions.at(-1);
    if (first === undefined || (before?.literal === "" && first.lead === "")) return undefined;
    expressions.push(...parsed);
  }
  const literals = expressions.reduce((sum, { literal }) => sum + literal.length, start.length);
  return expressions.length > MOST_EXPRESSIONS ? undefined : { start, expressions, literals };
}

/** Whether resources can be read by this template. */
export function isUsableTemplate(template: string): boolean {
  return parseUriTemplate(template) !== undefined;
}

/** None where it cannot be understood. */
function parseExpression(inside: string, literal: string): UriExpression[] {
  const [, operator = "", list = ""] = /^([+#./;?&]?)(.*)$/s.exec(inside) ?? [];
  const variables = list.split(",").map((variable) => {
    const [, name = "", modifier] = /^(.*?)(\*|:\d+)?$/s.exec(variable) ?? [];
    return { name, isExploded: modifier === "*" };
  });
  if (variables.some(({ name }) => name === "")) return [];
  const names = variables.map(({ name }) => name);
  const areOpen = variables.some(({ isExploded }) => isExploded);
  switch (operator) {
    case "?":
    case "&":
      return [{ names, lead: operator, stops: "#", pairs: { separator: "&", areOpen }, literal }];
    case ";":
      return [{ names, lead: ";", stops: "/?#", pairs: { separator: ";", areOpen }, literal }];
    case "/":
      return variables.map(({ name, isExploded }, index) => ({
        names: [name],
        lead: "/",
        stops: isExploded ? "?#" : "/?#",
        literal: index === variables.length - 1 ? literal : "",
      }));
    case ".":
      return [{ names, lead: ".", stops: "/?#", literal }];
    case "#":
      return [{ names, lead: "#", stops: "", literal }];
    case "+":
      return [{ names, lead: "", stops: "", literal }];
    default:
      // A list of values has commas by the standard, and is a path for many servers.
      return [{ names, lead: "", stops: areOpen ? "?#" : "/?#", literal }];
  }
}
