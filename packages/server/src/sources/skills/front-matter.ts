import { rewriteYaml } from "./rewrite-yaml.ts";

export interface SkillText {
  readonly frontMatter: Readonly<Record<string, unknown>>;
  /** Markdown below it. */
  readonly body: string;
  /** The YAML as somebody wrote it, with its comments; what it says now is in `frontMatter`. */
  readonly source?: string;
}

export const LARGEST_SKILL_TEXT = 1024 * 1024;
/** Aliases may repeat a value so often that it fills the memory; no skill needs more. */
const MOST_ALIASES = 20;

/** Takes a `SKILL.md` apart. Nothing in it is ever evaluated. Throws with the line that is wrong. */
export async function readSkillText(text: string): Promise<SkillText> {
  if (text.length > LARGEST_SKILL_TEXT) throw new Error("SKILL.md is larger than 1 MiB.");
  const found = /^\uFEFF?---[ \t]*\r?\n(?:([\s\S]*?)\r?\n)??---[ \t]*(?:\r?\n|$)/.exec(text);
  if (found === null) {
    if (/^\uFEFF?---[ \t]*(?:\r?\n|$)/.test(text))
      throw new Error("The front matter has no end. Close it with a line of three dashes.");
    return { frontMatter: {}, body: text };
  }
  const source = found[1] ?? "";
  const body = text.slice(found[0].length);
  // Imported late: most starts of the program read no front matter.
  const { parseDocument } = await import("yaml");
  const document = parseDocument(source, { prettyErrors: true, uniqueKeys: true });
  const problem = document.errors[0];
  if (problem !== undefined) {
    // The line of the dashes comes before what the parser saw.
    const line = (problem.linePos?.[0].line ?? 0) + 1;
    throw new Error(`The front matter is not YAML (line ${line}): ${problem.message.split("\n")[0]}`);
  }
  const value: unknown = document.toJS({ maxAliasCount: MOST_ALIASES });
  if (value === null || value === undefined) return { frontMatter: {}, body };
  if (typeof value !== "object" || Array.isArray(value)) {
    throw new Error("The front matter must be a map such as `name: pdf`.");
  }
  // What YAML knows beside JSON, such as dates, becomes what JSON makes of it.
  const plain = JSON.parse(JSON.stringify(value)) as Record<string, unknown>;
  return { frontMatter: plain, body, source };
}

/** What its source says already stays as it was written there. */
export async function writeSkillText({ frontMatter, body, source }: SkillText): Promise<string> {
  const { stringify } = await import("yaml");
  const yaml =
    source === undefined
      ? stringify(frontMatter, { lineWidth: 0 })
      : await rewriteYaml(source, frontMatter).catch(() => stringify(frontMatter, { lineWidth: 0 }));
  const end = yaml.includes("\r\n") ? "\r\n" : "\n";
  return `---${end}${yaml}${yaml.endsWith("\n") ? "" : end}---${end}${body}`;
}
