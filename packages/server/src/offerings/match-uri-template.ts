/** More than any address that a person or a program writes by hand has, and little enough to be matched at once. */
const LONGEST_URI = 8_192;
const LONGEST_TEMPLATE = 1_024;
const MOST_EXPRESSIONS = 32;

/**
 * The values of a template's variables in a URI that fits it, decoded; undefined when it does not fit. `{name}` stands
 * for one segment, `{+name}` for any number of them: what resource templates are written with. Templates and URIs come
 * from outside: the work grows with the length of the URI, never faster, whatever they are.
 */
export function matchUriTemplate(template: string, uri: string): Record<string, string> | undefined {
  if (uri.length > LONGEST_URI) return undefined;
  const parsed = parseTemplate(template);
  if (parsed === undefined || !uri.startsWith(parsed.start)) return undefined;
  return valuesIn(parsed, uri);
}

/**
 * Whether resources can be read by this template: one that does not begin with a scheme would claim the addresses of
 * everybody, and of two expressions with nothing in between nobody could say where one ends.
 */
export function isUsableTemplate(template: string): boolean {
  return parseTemplate(template) !== undefined;
}

interface Expression {
  readonly name: string;
  /** Whether it stands for one segment only. */
  readonly isSegment: boolean;
  /** The text that follows it. */
  readonly literal: string;
}

interface ParsedTemplate {
  /** The text before the first expression. */
  readonly start: string;
  readonly expressions: readonly Expression[];
}

function parseTemplate(template: string): ParsedTemplate | undefined {
  if (template.length > LONGEST_TEMPLATE) return undefined;
  const [start = "", ...rest] = template.split("{");
  if (!/^[a-z][a-z\d+.-]*:/i.test(start) || rest.length > MOST_EXPRESSIONS) return undefined;
  const expressions: Expression[] = [];
  for (const [index, part] of rest.entries()) {
    const end = part.indexOf("}");
    const isSegment = !part.startsWith("+");
    const name = part.slice(isSegment ? 0 : 1, Math.max(end, 0));
    const literal = part.slice(end + 1);
    const isLast = index === rest.length - 1;
    if (end === -1 || name === "" || (literal === "" && !isLast)) return undefined;
    expressions.push({ name, isSegment, literal });
  }
  return { start, expressions };
}

/** Each variable takes as much as leaves the rest of the template something to fit. */
function valuesIn({ start, expressions }: ParsedTemplate, uri: string): Record<string, string> | undefined {
  const endings = endingsOf(expressions, uri);
  const values: [string, string][] = [];
  let from = start.length;
  for (const [index, { name, literal }] of expressions.entries()) {
    const to = endings[index]![from]!;
    if (to === NONE) return undefined;
    values.push([name, decode(uri.slice(from, to))]);
    from = to + literal.length;
  }
  return from === uri.length ? Object.fromEntries(values) : undefined;
}

const NONE = -1;

/**
 * For each expression and each place in the URI where it may begin: the last place where it may end so that everything
 * after it fits. Made from the last expression to the first, so that each is gone through once.
 */
function endingsOf(expressions: readonly Expression[], uri: string): Int32Array[] {
  const { length } = uri;
  const endings: Int32Array[] = [];
  let later: Int32Array | undefined;
  for (const { isSegment, literal } of expressions.toReversed()) {
    const own = new Int32Array(length + 1).fill(NONE);
    let end = NONE;
    for (let place = length - 1; place >= 0; place--) {
      const next = place + 1;
      const after = next + literal.length;
      const isEnd =
        uri.startsWith(literal, next) && (later === undefined ? after === length : later[after] !== NONE);
      if (isSegment && isDelimiter(uri.charCodeAt(place))) {
        end = NONE;
        continue;
      }
      if (end === NONE && isEnd) end = next;
      own[place] = end;
    }
    endings.unshift(own);
    later = own;
  }
  return endings;
}

/** `/`, `?` and `#`, which end a segment. */
function isDelimiter(code: number): boolean {
  return code === 0x2f || code === 0x3f || code === 0x23;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
