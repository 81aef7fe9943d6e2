export interface SkillText {
  readonly frontMatter: Readonly<Record<string, unknown>>;
  /** The Markdown below it. */
  readonly body: string;
}

/** The front matter has something that is beyond the forms that skills use. */
export class FrontMatterError extends Error {
  readonly line: number;

  constructor(line: number, text: string) {
    super(text);
    this.name = "FrontMatterError";
    this.line = line;
  }
}

/**
 * Takes a `SKILL.md` apart. Read are the forms that skills use: `key: value`, quoted and folded texts, lists, maps one
 * level deep, and JSON. Anything else is refused with its line rather than guessed at. Throws `FrontMatterError`.
 */
export function readSkillText(text: string): SkillText {
  const found = /^\uFEFF?---[ \t]*\r?\n([\s\S]*?)(?:\r?\n)?---[ \t]*(?:\r?\n|$)/.exec(text);
  if (found === null) return { frontMatter: {}, body: text };
  const lines = found[1]!.split(/\r?\n/);
  const frontMatter: Record<string, unknown> = {};
  for (let at = 0; at < lines.length; ) {
    const line = lines[at]!;
    if (isBlank(line)) {
      at++;
      continue;
    }
    const pair = /^([A-Za-z0-9_-]+):(?:[ \t]+(.*))?$/.exec(line);
    if (pair === null) throw new FrontMatterError(at + 2, line.trim());
    const end = endOfBlock(lines, at + 1);
    frontMatter[pair[1]!] = readValue((pair[2] ?? "").trim(), lines.slice(at + 1, end), at + 2);
    at = end;
  }
  return { frontMatter, body: text.slice(found[0].length) };
}

/** JSON is YAML, so the values are written as JSON. */
export function writeSkillText({ frontMatter, body }: SkillText): string {
  const lines = Object.entries(frontMatter).map(([key, value]) => `${key}: ${JSON.stringify(value)}\n`);
  return `---\n${lines.join("")}---\n${body}`;
}

function endOfBlock(lines: readonly string[], from: number): number {
  let end = from;
  // A list may stand at the very beginning of its lines.
  while (
    end < lines.length &&
    (/^[ \t]/.test(lines[end]!) || isBlank(lines[end]!) || /^- /.test(lines[end]!))
  )
    end++;
  return end;
}

function readValue(text: string, block: readonly string[], line: number): unknown {
  if (/^[|>][+-]?$/.test(text)) return blockText(text, block);
  const inner = block.filter((one) => !isBlank(one)).map((one) => one.trim());
  if (inner.length === 0) return readScalar(text, line);
  if (text !== "") return readScalar([text, ...inner].join(" "), line);
  if (inner.every((one) => one.startsWith("- ")))
    return inner.map((one) => readScalar(one.slice(2).trim(), line));
  const pairs = inner.map((one) => /^("[^"]+"|[\w.-]+):(?:[ \t]+(.*))?$/.exec(one));
  if (pairs.some((pair) => pair === null || !pair[2])) throw new FrontMatterError(line + 1, inner[0]!);
  return Object.fromEntries(
    pairs.map((pair) => [pair![1]!.replace(/^"|"$/g, ""), readScalar(pair![2]!.trim(), line)]),
  );
}

function blockText(mark: string, block: readonly string[]): string {
  const indent = Math.min(...block.filter((one) => !isBlank(one)).map((one) => one.search(/\S/)));
  const lines = block.map((one) => one.slice(Number.isFinite(indent) ? indent : 0).trimEnd());
  const text = lines.join("\n").trimEnd();
  const joined = mark.startsWith("|")
    ? text
    : text.replace(/([^\n])\n(?!\n)/g, "$1 ").replace(/\n\n+/g, "\n");
  return mark.endsWith("-") || joined === "" ? joined : `${joined}\n`;
}

function readScalar(given: string, line: number): unknown {
  const text = /^["'[{]/.test(given) ? given : given.replace(/\s+#.*$/, "").trim();
  if (/^["[{]/.test(text)) return readJson(text, line);
  if (/^'.*'$/.test(text)) return text.slice(1, -1).replaceAll("''", "'");
  if (/^[&*!%@`]/.test(text)) throw new FrontMatterError(line, text);
  if (text === "" || text === "null" || text === "~") return null;
  if (text === "true" || text === "false") return text === "true";
  return /^-?(?:0|[1-9]\d*)(?:\.\d+)?$/.test(text) ? Number(text) : text;
}

function readJson(text: string, line: number): unknown {
  try {
    return JSON.parse(text);
  } catch {
    const list = /^\[(.*)\]$/.exec(text);
    if (list === null || /[[\]{}"']/.test(list[1]!)) throw new FrontMatterError(line, text);
    return list[1]!.split(",").map((one) => readScalar(one.trim(), line));
  }
}

function isBlank(line: string): boolean {
  return /^\s*(#.*)?$/.test(line);
}
