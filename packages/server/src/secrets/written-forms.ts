/** Shorter pieces of base64 stand in texts by chance. */
const SHORTEST_PIECE = 8;

/**
 * A secret as it may be written where it is not written plainly: in a URL, inside a JSON text, and in base64, alone or
 * as a part of something longer.
 */
export function writtenForms(value: string): string[] {
  const forms = new Set([value, inUrl(value), JSON.stringify(value).slice(1, -1)]);
  for (const piece of piecesInBase64(value)) {
    forms.add(piece);
    forms.add(piece.replaceAll("+", "-").replaceAll("/", "_"));
  }
  return [...forms];
}

/** Half of a character has no form in a URL. */
function inUrl(value: string): string {
  return encodeURIComponent(value.toWellFormed());
}

/** What is the same in base64 whatever stands before and after: it depends on how many bytes stand before. */
function piecesInBase64(value: string): string[] {
  return [0, 1, 2].flatMap((before) => {
    const bytes = Buffer.concat([Buffer.alloc(before), Buffer.from(value)]);
    const whole = bytes.length - (bytes.length % 3);
    const piece = bytes
      .subarray(0, whole)
      .toString("base64")
      .slice(before === 0 ? 0 : 4);
    return piece.length < SHORTEST_PIECE ? [] : [piece];
  });
}
