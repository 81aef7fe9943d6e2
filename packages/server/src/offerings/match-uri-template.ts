import { parseUriTemplate, type UriExpression, type UriTemplate } from "./uri-template.ts";

/** More than any address that a person or a program writes by hand has, and little enough to be matched at once. */
const LONGEST_URI = 8_192;
/** Places of a URI that are looked at for one source: tenths of a second at most, and far more than honest ones need. */
const MOST_WORK = 4_000_000;

/**
 * The values of a template's variables in a URI that fits it, decoded; undefined when it does not fit. All expressions of
 * RFC 6570 are known. What begins with a sign, as `{?name}` and `{/name}` do, may be left out, and then has no value; the
 * pairs of a query may be in any order. Of a variable with several values, they are joined as they stand in the URI.
 * Templates and URIs come from outside: the work grows with the length of the URI, never faster, whatever they are.
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

/** Each expression takes as much as leaves the rest of the template something to fit. */
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
      // `end` is that of what begins right behind this place.
      if (lead === "") own[place] = isEdge ? NONE : end;
      else if (end !== NONE && uri[place] === lead && !isStop(place, true)) own[place] = end;
      else if (fits) own[place] = place;
      if (isEdge) end = NONE;
      // A query or fragment that has an expression of its own begins at its first sign.
      const beginsNext = (next === "?" || next === "#") && uri[place] === next;
      if (fits && (end === NONE || beginsNext)) end = place;
    }
    endings.unshift(own);
    later = own;
  }
  return endings;
}

/**
 * Whether an expression cannot go on over a place of the URI, or cannot begin at it: what it cannot hold stands there, or
 * a pair begins whose name is none of its own.
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

/** `text` is what stands behind the sign that the expression begins with. */
function valuesOf({ names, lead, pairs }: UriExpression, text: string): [string, string][] {
  if (pairs !== undefined) {
    const given = text.split(pairs.separator).map((pair) => {
      const [, name = "", value = ""] = /^([^=]*)=?(.*)$/s.exec(pair) ?? [];
      return { name: decode(name), value: decode(value) };
    });
    return names.flatMap((name) => {
      const values = given.filter((pair) => pair.name === name).map(({ value }) => value);
      return values.length === 0 ? [] : [[name, values.join(",")] as [string, string]];
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
