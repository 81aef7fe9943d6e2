import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { WordTable } from "./word-table.ts";

export { WordTable } from "./word-table.ts";

/** The languages that there are words of. Each has three files in `data`, and the files of Chinese have a licence of their own. */
export const languages = ["en", "zh"] as const;
type Language = (typeof languages)[number];

let opened: Promise<WordTable> | undefined;

/** Reads the words of all languages: at the first call only, because they take 7 MB. Rejects when a file is missing or damaged. */
export function openWords(): Promise<WordTable> {
  opened ??= readWords(languages);
  return opened;
}

/** Reads the words of some languages. */
export async function readWords(of: readonly Language[]): Promise<WordTable> {
  const parts = of.map(async (language) => {
    const read = (file: string) => readFile(join(import.meta.dirname, "../data", `${language}.${file}`));
    const [words, rows, scales] = await Promise.all([read("words.txt"), read("rows.i8"), read("scales.f32")]);
    return { words: words.toString("utf8"), rows, scales };
  });
  return new WordTable(await Promise.all(parts));
}
