const han = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}]/gu;

/** About how many tokens a model pays for a text. An estimate: tokenisers differ, and a real one is slow and large. */
export function estimateTokens(text: string): number {
  const wide = text.match(han)?.length ?? 0;
  return Math.ceil((text.length - wide) / 4 + wide / 1.5);
}
