/** How long a block may be: small enough that laying out those on the screen takes no time. */
const LONGEST = 32 * 1024;

/**
 * A text in blocks that are shown under each other. Blocks end at line breaks, which are left out because the end of a
 * block is one; only a line that is longer than a block is cut.
 */
export function intoBlocks(text: string): string[] {
  const blocks: string[] = [];
  let at = 0;
  while (text.length - at > LONGEST) {
    const lineBreak = text.lastIndexOf("\n", at + LONGEST);
    const end = lineBreak > at ? lineBreak : at + LONGEST;
    blocks.push(text.slice(at, end));
    at = lineBreak > at ? end + 1 : end;
  }
  blocks.push(text.slice(at));
  return blocks;
}
