/** Longer than any URI that people or programs write, and short enough to be matched at once. */
const LONGEST_URI = 8_192;
/** Places of a URI that are looked at for one source: tenths of a second at most, and far more than honest ones need. */
const MOST_WORK = 4_000_000;

/**
 * The decoded values of a template's variables in a URI; undefined when the URI does not fit. Knows all expressions of
 * RFC 6570. An expression with a leading sign, such as `{?name}` or `{/name}`, may be missing, and then has no value.
 * The pairs of a query may be in any order. Several values of one variable are joined as they stand in the URI. The
 * work grows linearly with the length of the URI, for any template.
 */
export function matchUriTemplate(template: string, uri: string): Record<string, string> | undefined {
  if (uri.length > LONGEST_URI) return undefined;
  const parsed = parseUriTemplate(template);
  if (parsed === undefined || !uri.startsWith(parsed.start)) return undefined;
  return valuesIn(parsed, uri);
}

/**
 * How well a URI fits the best of a source's templates: the number of characters that the template itself says. Undefined
 * when it fits none. Those that say most are tried first, and no more of them than can be tried at once.
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
 * For each expression and each place in the URI where it may begin: the last place where it may end so that everything
 * after it fits. Made from the last expression to the first, so that each is gone through once.
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
      // Here `end` still belongs to the place after this one.
      if (lead === "") own[place] = isEdge ? NONE : end;
      else if (end !== NONE && uri[place] === lead && !isStop(place, true)) own[place] = end;
      else if (fits) own[place] = place;
      if (isEdge) end = NONE;
      // A query or fragment with its own expression begins at its first `?` or `#`.
      const beginsNext = (next === "?" || next === "#") && uri[place] === next;
      if (fits && (end === NONE || beginsNext)) end = place;
    }
    endings.unshift(own);
    later = own;
  }
  return endings;
}

/**
 * Returns a check whether an expression must stop at a place of the URI, or cannot begin there: it may not contain the
 * character, or a pair with an unknown name begins.
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

/** A template of addresses, by RFC 6570: the text before its first expression, and what follows. */
interface UriTemplate {
  readonly start: string;
  readonly expressions: readonly UriExpression[];
  /** How many characters every matching URI shares: the more, the fewer it matches by chance. */
  readonly literals: number;
}

/** One `{…}`, or one of its variables where each has a place of its own: `{/a,b}` is the same as `{/a}{/b}`. */
interface UriExpression {
  readonly names: readonly string[];
  /** Its leading sign, if it has one. An expression with a leading sign may be missing in a URI. */
  readonly lead: "" | "?" | "&" | ";" | "/" | "." | "#";
  /** Characters that its text cannot contain. */
  readonly stops: string;
  /** For `name=value` pairs: their separator, and whether other names than `names` are allowed. */
  readonly pairs?: { readonly separator: "&" | ";"; readonly areOpen: boolean };
  /** The text after the expression. */
  readonly literal: string;
}

const LONGEST_TEMPLATE = 1_024;
const MOST_EXPRESSIONS = 32;

/**
 * Undefined for an unusable template: without a scheme it would match everybody's URIs, and when two expressions touch
 * without a sign between them, nobody could say where the first one ends.
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

/** What each operator of RFC 6570 means. Without one, the standard separates values by commas; many servers send a path. */
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

/** Empty when the expression is malformed. */
function parseExpression(inside: string, literal: string): UriExpression[] {
  const [, operator = "", list = ""] = /^([+#./;?&]?)(.*)$/s.exec(inside) ?? [];
  const variables = list.split(",").map((variable) => {
    const [, name = "", modifier] = /^(.*?)(\*|:\d+)?$/s.exec(variable) ?? [];
    return { name, isExploded: modifier === "*" };
  });
  if (variables.some(({ name }) => name === "")) return [];
  const { lead, stops, separator, explodedStops = stops } = operators[operator]!;
  // Each segment of a path has a place of its own.
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
