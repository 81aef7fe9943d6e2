/**
 * JSON as people write it in the files of editors: with comments and with commas before a closing bracket. Throws
 * `SyntaxError` with the line of the mistake.
 */
export function parseJsonc(text: string): unknown {
  const plain = withoutTrailingCommas(withoutComments(text.replace(/^\uFEFF/, "")));
  try {
    return JSON.parse(plain);
  } catch (error) {
    throw new SyntaxError(describe(error as SyntaxError, plain));
  }
}

/**
 * A whole string, or a comment. A string is matched first, so that `//` inside one is left alone; one that nobody closes
 * is taken up to the end of its line, rather than looked for anew at every quote.
 */
const stringOrComment = /"(?:[^"\\\n]|\\.)*"?|\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$)/g;
const stringOrComma = /"(?:[^"\\\n]|\\.)*"?|,(?=\s*[}\]])/g;

/** Everything stays at its line and column: what is taken out leaves blanks. */
function withoutComments(text: string): string {
  return text.replace(stringOrComment, (found) =>
    found.startsWith('"') ? found : found.replace(/[^\n]/g, " "),
  );
}

function withoutTrailingCommas(text: string): string {
  return text.replace(stringOrComma, (found) => (found === "," ? " " : found));
}

function describe({ message }: SyntaxError, text: string): string {
  const line = text.slice(0, placeOf(message, text)).split("\n").length;
  return `line ${line}: ${message.replace(/, ?\.\.\.[\s\S]*$| in JSON at position[\s\S]*$/, "")}`;
}

const token = /\s+|"(?:[^"\\\n]|\\.)*"|-?\d[\d.eE+-]*|true|false|null|[{}[\]:,]/y;

/** Only some of the engine's messages say where; of the others it is the first place that is no JSON at all. */
function placeOf(message: string, text: string): number {
  const said = /at position (\d+)/.exec(message)?.[1];
  if (said !== undefined) return Number(said);
  let at = 0;
  while (at < text.length) {
    token.lastIndex = at;
    if (!token.test(text)) return at;
    at = token.lastIndex;
  }
  return at;
}
