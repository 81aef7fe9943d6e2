/**
 * In characters. Longer than any URI that people or programs write, and short enough to be matched at once.
 */
const LONGEST_URI = 8_192;
/**
 * How many characters `bestFit` may examine, added up over all templates of a source. This takes tenths of a
 * second at most, and real templates need far fewer.
 */
const MOST_WORK = 4_000_000;

/**
 * The decoded values of a template's variables in a URI; undefined when the URI does not fit. Knows all
 * expressions of RFC 6570. An expression with a leading sign, such as `{?name}` or `{/name}`, may be missing
 * from the URI; its variables then have no value. The pairs of a query may be in any order. The values of a
 * name that occurs several times in a query are joined with commas; other lists of values stay as they are in
 * the URI. The work grows linearly with the length of the URI, for any template.
 */
export function matchUriTemplate(template: string, uri: string): Record<string, string> | undefined {
  if (uri.length > LONGEST_URI) return undefined;
  const parsed = parseUriTemplate(template);
  if (parsed === undefined || !uri.startsWith(parsed.start)) return undefined;
  return valuesIn(parsed, uri);
}

/**
 * How well a URI fits a source's templates: the number of literal characters in the best template that it
 * fits. Undefined when it fits none. The templates with the most literal characters are tried first; when
 * that takes more than `MOST_WORK`, the rest are not tried, and the URI counts as fitting none.
 */
export function bestFit(templates: readonly string[], uri: string): number | undefined {
  if (uri.length > LONGEST_URI) return undefined;
  const likely = templates
    .flatMap((template) => parseUriTemplate(template) ?? [])
    .filter(({ start }) => uri.startsWith(start))
    .sort((one, other) => other.literals - one.literals);
  let work = 0;
  for (const template of likely) {
    work += uri.length * template.expressions.length;
    if (work > MOST_WORK) return undefined;
    if (valuesIn(template, uri) !== undefined) return template.literals;
  }
  return undefined;
}

/** Each expression takes as much text as possible, as long as the rest of the template still fits. */
function valuesIn({ start, expressions }: UriTemplate, uri: string): Record<string, string> | undefined {
  const endings = endingsOf(expressions, uri);
  const values: [string, string][] = [];
  let from = start.length;
  for (const [index, expression] of expressions.entries()) {
    const to = endings[index]![from]!;
    if (to === NONE) return undefined;
    if (to > from) values.push(...valuesOf(expression, uri.slice(from + expression.lead.length, to)));
    from = to + expression.literal.length;
  }
  return from === uri.length ? Object.fromEntries(values) : undefined;
}

const NONE = -1;

/**
 * For each expression and each place in the URI where it may begin: the last place where it may end so that
 * everything after it fits. Computed from the last expression to the first, so that the URI is scanned only
 * once for each expression.
 */
function endingsOf(expressions: readonly UriExpression[], uri: string): Int32Array[] {
  const { length } = uri;
  const endings: Int32Array[] = [];
  let later: Int32Array | undefined;
  for (const [index, expression] of [...expressions.entries()].reverse()) {
    const { lead, literal } = expression;
    const isStop = stopsOf(expression, uri);
    const next = literal === "" ? expressions[index + 1]?.lead : undefined;
    const own = new Int32Array(length + 1).fill(NONE);
    let end = NONE;
    for (let place = length; place >= 0; place--) {
      const after = place + literal.length;
      const fits =
        uri.startsWith(literal, place) && (later === undefined ? after === length : later[after] !== NONE);
      const isEdge = isStop(place);
      // At this point `end` is still the value for `place + 1`.
      if (lead === "") own[place] = isEdge ? NONE : end;
      else if (end !== NONE && uri[place] === lead && !isStop(place, true)) own[place] = end;
      else if (fits) own[place] = place;
      if (isEdge) end = NONE;
      // When the next expression is `{?…}` or `{#…}`, this one ends at the first `?` or `#` that fits, not
      // the last.
      const beginsNext = (next === "?" || next === "#") && uri[place] === next;
      if (fits && (end === NONE || beginsNext)) end = place;
    }
    endings.unshift(own);
    later = own;
  }
  return endings;
}

/**
 * Returns a function that tells whether an expression's text must end at a place in the URI: because the URI
 * ends, because the text may not contain the character there, or because a pair with an unknown name begins.
 * With `isLead`, the place is that of the expression's leading sign, and the function tells whether the
 * expression cannot begin there.
 */
function stopsOf(
  { names, stops, pairs }: UriExpression,
  uri: string,
): (place: number, isLead?: boolean) => boolean {
  const known = new Set(["", ...names]);
  const name = /[^=&;#]*/y;
  const isUnknown = (place: number) => {
    name.lastIndex = place + 1;
    return !known.has(decode(name.exec(uri)?.[0] ?? ""));
  };
  return (place, isLead = false) => {
    const sign = uri[place];
    if (sign === undefined) return true;
    if (!isLead && stops.includes(sign)) return true;
    if (pairs === undefined || pairs.areOpen) return false;
    return (isLead || sign === pairs.separator) && isUnknown(place);
  };
}

/** `text` is the part after the expression's leading sign. */
function valuesOf({ names, lead, pairs }: UriExpression, text: string): [string, string][] {
  if (pairs !== undefined) {
    const given = text.split(pairs.separator).map((pair) => {
      const [, name = "", value = ""] = /^([^=]*)=?(.*)$/s.exec(pair) ?? [];
      return { name: decode(name), value: decode(value) };
    });
    return names.flatMap((name): [string, string][] => {
      const values = given.filter((pair) => pair.name === name).map(({ value }) => value);
      return values.length === 0 ? [] : [[name, values.join(",")]];
    });
  }
  if (names.length === 1) return [[names[0]!, decode(text)]];
  const separator = lead === "." ? "." : ",";
  const values = text.split(separator);
  const last = names.length - 1;
  return names.slice(0, values.length).map((name, index) => {
    const value = index === last ? values.slice(last).join(separator) : values[index]!;
    return [name, decode(value)];
  });
}

function decode(text: string): string {
  if (!text.includes("%")) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** A URI template of RFC 6570: the text before its first expression, and its expressions. */
interface UriTemplate {
  readonly start: string;
  readonly expressions: readonly UriExpression[];
  /** How many literal characters the template has. The more there are, the fewer URIs match by chance. */
  readonly literals: number;
}

/**
 * One `{…}` of a template. Only `{/a,b}` becomes several expressions, because it means the same as
 * `{/a}{/b}`.
 */
interface UriExpression {
  readonly names: readonly string[];
  /**
   * The sign with which the expression begins in a URI, if any. An expression with such a sign may be missing
   * from a URI.
   */
  readonly lead: "" | "?" | "&" | ";" | "/" | "." | "#";
  /** Characters that the expression's text in a URI cannot contain. */
  readonly stops: string;
  /** For `name=value` pairs: their separator, and whether other names than `names` are allowed. */
  readonly pairs?: { readonly separator: "&" | ";"; readonly areOpen: boolean };
  /** The literal text between this expression and the next one, or the end of the template. */
  readonly literal: string;
}

const LONGEST_TEMPLATE = 1_024;
const MOST_EXPRESSIONS = 32;

/**
 * Undefined for a template that cannot be used. It may be malformed or too long; it may lack a scheme, so
 * that it would match the URIs of others; or two of its expressions may have no sign between them, so that
 * nobody could say where the first one ends.
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

export function isUsableTemplate(template: string): boolean {
  return parseUriTemplate(template) !== undefined;
}

/**
 * What each operator of RFC 6570 means. `{name*}` without an operator stands for values with commas between
 * them, but many servers send a path there, so its text may contain slashes.
 */
const operators: Readonly<
  Record<string, Pick<UriExpression, "lead" | "stops"> & { separator?: "&" | ";"; explodedStops?: string }>
> = {
  "": { lead: "", stops: "/?#", explodedStops: "?#" },
  "+": { lead: "", stops: "" },
  "#": { lead: "#", stops: "" },
  ".": { lead: ".", stops: "/?#" },
  "/": { lead: "/", stops: "/?#", explodedStops: "?#" },
  ";": { lead: ";", stops: "/?#", separator: ";" },
  "?": { lead: "?", stops: "#", separator: "&" },
  "&": { lead: "&", stops: "#", separator: "&" },
};

/** Returns no expressions when the text inside the braces is malformed. */
function parseExpression(inside: string, literal: string): UriExpression[] {
  const [, operator = "", list = ""] = /^([+#./;?&]?)(.*)$/s.exec(inside) ?? [];
  const variables = list.split(",").map((variable) => {
    const [, name = "", modifier] = /^(.*?)(\*|:\d+)?$/s.exec(variable) ?? [];
    return { name, isExploded: modifier === "*" };
  });
  if (variables.some(({ name }) => name === "")) return [];
  const { lead, stops, separator, explodedStops = stops } = operators[operator]!;
  // Each variable of `{/a,b}` is a path segment, and becomes an expression of its own.
  const groups = operator === "/" ? variables.map((variable) => [variable]) : [variables];
  return groups.map((group, index) => {
    const areOpen = group.some(({ isExploded }) => isExploded);
    return {
      names: group.map(({ name }) => name),
      lead,
      stops: areOpen ? explodedStops : stops,
      ...(separator && { pairs: { separator, areOpen } }),
      literal: index === groups.length - 1 ? literal : "",
    };
  });
}
