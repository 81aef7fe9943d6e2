/** A text as one word of a shell. */
export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

/** What is typed to start a program with these words. */
export function shellWords(words: readonly string[]): string {
  return words.map(shellWord).join(" ");
}
