import { stripVTControlCharacters } from "node:util";

/** Inclusive ranges of code points that East Asian terminals draw two columns wide (Unicode's W and F). */
const wide: readonly (readonly [number, number])[] = [
  [0x1100, 0x115f],
  [0x231a, 0x231b],
  [0x2329, 0x232a],
  [0x23e9, 0x23ec],
  [0x23f0, 0x23f0],
  [0x23f3, 0x23f3],
  [0x25fd, 0x25fe],
  [0x2614, 0x2615],
  [0x2e80, 0x303e],
  [0x3041, 0x33ff],
  [0x3400, 0x4dbf],
  [0x4e00, 0xa4cf],
  [0xa960, 0xa97f],
  [0xac00, 0xd7a3],
  [0xf900, 0xfaff],
  [0xfe10, 0xfe19],
  [0xfe30, 0xfe6f],
  [0xff00, 0xff60],
  [0xffe0, 0xffe6],
  [0x16fe0, 0x18dff],
  [0x1aff0, 0x1b2ff],
  [0x1f200, 0x1f265],
  [0x20000, 0x3fffd],
];
const plain = /^[\x20-\x7e]*$/;
const invisible = /^[\p{Control}\p{Mark}\p{Format}\p{Surrogate}]/u;
/** Drawn as a picture: by itself, or because a selector, a skin tone or a second flag letter asks for it. */
const picture = /^(?:\p{Emoji_Presentation}|\p{Emoji}\uFE0F|\p{Regional_Indicator}{2})/u;
const segmenter = new Intl.Segmenter(undefined, { granularity: "grapheme" });

/** How many columns of a terminal the text takes; colours take none. */
export function displayWidth(text: string): number {
  if (plain.test(text)) return text.length;
  let width = 0;
  for (const { segment } of segmenter.segment(stripVTControlCharacters(text))) width += widthOf(segment);
  return width;
}

/** Fills the text up with spaces to the given width. */
export function padDisplay(text: string, width: number, side: "start" | "end" = "end"): string {
  const fill = " ".repeat(Math.max(0, width - displayWidth(text)));
  return side === "end" ? text + fill : fill + text;
}

/** The text, or its beginning with `…` when it is wider than there is room. Colours in it are not expected. */
export function clipDisplay(text: string, room: number): string {
  if (displayWidth(text) <= room) return text;
  let kept = "";
  let width = 0;
  for (const { segment } of segmenter.segment(text)) {
    width += widthOf(segment);
    if (width > room - 1) break;
    kept += segment;
  }
  return `${kept.trimEnd()}…`;
}

function widthOf(grapheme: string): number {
  if (invisible.test(grapheme)) return 0;
  if (picture.test(grapheme)) return 2;
  const point = grapheme.codePointAt(0)!;
  return wide.some(([from, to]) => point >= from && point <= to) ? 2 : 1;
}
