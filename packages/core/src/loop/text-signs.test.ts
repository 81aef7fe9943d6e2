import { describe, expect, it } from "vitest";
import { loopCases } from "../../../../scripts/loop-cases.ts";
import { saysError } from "./inference.ts";
import { noiseIn } from "./noise.ts";
import { ANY_SIGN, COMPLAINT, IN_VAIN, NAMES, signsOf } from "./text-signs.ts";

const at = Date.UTC(2026, 6, 1, 12);
const results = loopCases().flatMap(({ steps }) => steps.map(({ result }) => result));
/** Words that the patterns look for, from the middle of the results of all runs and written here. */
const words =
  "error ERROR sh: line 3 ERR! except Traceback not found no such denied exit fatal unable usage: invalid panic couldn't can't cannot FAIL failed failure return finished with completed with false TIMED timed out not saved no changes forbidden unauthorized wrong unknown unrecognized HTTP status no cannot already unchanged didn't doesn't isn't wasn't missing nicht keine fehler ungültig introuvable erreur impossible pas 找不到 ошибка 失敗 id request_id=a1 /tmp/a1b2 ratelimit-used: 4 AGE 3m 1 Jul 2026 2026年7月1日";

describe("signs of a text", () => {
  it("of ordinary answers are none", () => {
    for (const text of ["", "done", "°C in Riga", "accepted order", "3 degrees below zero"])
      expect(signsOf(text) & (COMPLAINT | IN_VAIN | NAMES)).toBe(0);
  });

  it("hide nothing from the patterns", () => {
    const texts = [...new Set([...results, ...words.split(" ").flatMap((word) => [word, `a ${word} 1 b`])])];
    expect(texts.length).toBeGreaterThan(200);
    for (const text of texts) {
      expect([text, saysError(text)]).toEqual([text, saysError(text, ANY_SIGN)]);
      expect([text, noiseIn(text, at, 0, text.length, signsOf(text))]).toEqual([text, noiseIn(text, at)]);
    }
  });
});
