import type { Confinement } from "../../confine.ts";
import { openRegularFile } from "../../file/support/open-regular-file.ts";
import type { Outline } from "./code-symbol.ts";
import { countLines, findComments, type LineCounts } from "./count-lines.ts";
import { languageOf } from "./language.ts";
import { outline } from "./outline.ts";
import { parseScript, type SyntaxProblem } from "./parse-script.ts";

export interface FileAnalysis {
  readonly path: string;
  readonly language: string;
  readonly counts: LineCounts;
  /** Of TypeScript and JavaScript only. */
  readonly outline?: Outline;
  readonly problems?: readonly SyntaxProblem[];
  /** Why there is no outline. */
  readonly note?: string;
}

const LARGEST_FILE = 20 * 1024 * 1024;
/** What is larger was not written by hand. */
const LARGEST_SCRIPT = 2 * 1024 * 1024;

/** Rejects for what is no text file. */
export async function analyzeFile(workspace: Confinement, path: string): Promise<FileAnalysis> {
  const { text, shown } = await readText(workspace, path);
  const language = languageOf(shown);
  const plain = { path: shown, language: language?.name ?? "unknown" };
  const counted = { ...plain, counts: countLines(text, findComments(text, language?.comments)) };
  if (language?.isScript !== true) {
    return { ...counted, note: `Only lines are counted: symbols are found in TypeScript and JavaScript.` };
  }
  if (text.length > LARGEST_SCRIPT)
    return { ...counted, note: "Only lines are counted: the file is over 2 MB." };
  const { file, problems } = await parseScript(shown, text);
  if (file === undefined) return { ...counted, problems, note: "The syntax is too broken for an outline." };
  const comments = (file.comments ?? []).map(({ start, end }) => ({ start: start ?? 0, end: end ?? 0 }));
  return { ...plain, counts: countLines(text, comments), outline: outline(file, text), problems };
}

async function readText(workspace: Confinement, path: string): Promise<{ text: string; shown: string }> {
  const { handle, stats, shown } = await openRegularFile(workspace, path);
  try {
    if (stats.size > LARGEST_FILE) throw new Error(`${shown} is over 20 MB; it is not analysed.`);
    const bytes = await handle.readFile();
    if (bytes.includes(0)) throw new Error(`${shown} is a binary file; there is no code to analyse.`);
    return { text: bytes.toString("utf8").replace(/^\uFEFF/, ""), shown };
  } finally {
    await handle.close();
  }
}
