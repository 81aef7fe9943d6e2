/**
 * What a terminal would obey instead of show: control characters, and the marks that turn the direction of text.
 * Line ends and tabs are left.
 */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are exactly what must be found.
const unsafe = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** Text that others wrote, safe to show on a terminal. */
export function printable(text: string): string {
  return text
    .replaceAll("\r\n", "\n")
    .replace(unsafe, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** The same on one line. */
export function oneLine(text: string): string {
  return printable(text.replace(/\s+/g, " ").trim());
}
