import { describe, expect, it } from "vitest";
import { loopCases } from "../../../../scripts/loop-cases.ts";
import { inVain, says } from "./inference.ts";
import { noiseIn } from "./noise.ts";
import { COMPLAINT, DIGITS, IN_VAIN, NAMES, signsOf } from "./text-signs.ts";

const at = Date.UTC(2026, 6, 1, 12);
const everySign = DIGITS | COMPLAINT | IN_VAIN | NAMES;
const results = [...new Set(loopCases().flatMap(({ steps }) => steps.map(({ result }) => result)))];

describe("signs of a text", () => {
  it("of ordinary answers are none", () => {
    for (const text of ["", "done", "°C in Riga", "accepted order", "above zero"])
      expect([text, signsOf(text) & everySign]).toEqual([text, 0]);
  });

  it.each([
    ["a complaint", says, COMPLAINT],
    ["a failure", inVain, IN_VAIN],
  ])("has every text that reads like %s", (_what, pattern, sign) => {
    const made = textsOf(pattern.source, 20_000);
    const fitting = [...made, ...results].filter((text) => pattern.test(text));
    expect(fitting.length).toBeGreaterThan(made.length / 4);
    expect(fitting.filter((text) => text.length <= 1_000 && (signsOf(text) & sign) === 0)).toEqual([]);
  });

  it("have all names that programs make up, and all dates", () => {
    const names =
      "req id: a1|REQ_ID=a1|requestId:a1|request-id a1|traceId=a1|correlation_id: a1|Ray ID: a1|/tmp/tmpA1|x-ratelimit-used: 4|NAME AGE \n a 3m |Age \n 3m |1 Jul 2026 12:00:00|Jul 1 12:00:00|2026年7月1日 12:00:00";
    for (const text of [...names.split("|"), ...results]) {
      const found = noiseIn(text, at, 0, text.length, everySign);
      expect([text, noiseIn(text, at)]).toEqual([text, found]);
    }
    for (const name of names.split("|"))
      expect([name, noiseIn(name, at)?.spans.length ?? 0]).not.toEqual([name, 0]);
  });
});

/** Texts that a pattern describes. Says nothing of what must not stand beside them, so that some do not fit. */
function textsOf(source: string, count: number): string[] {
  let seed = 1;
  const upTo = (most: number) => {
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0;
    return Math.floor((seed / 2 ** 32) * most);
  };
  type Write = () => string;
  let next = 0;
  const read = (form: RegExp) => {
    form.lastIndex = next;
    const found = form.exec(source);
    if (found !== null) next = form.lastIndex;
    return found?.[0];
  };
  const whole = alternatives();
  expect(next).toBe(source.length);
  return Array.from({ length: count }, whole);

  function alternatives(): Write {
    const branches = [sequence()];
    while (read(/\|/y) !== undefined) branches.push(sequence());
    return () => branches[upTo(branches.length)]!();
  }

  function sequence(): Write {
    const parts: Write[] = [];
    while (next < source.length && !"|)".includes(source[next]!)) parts.push(repeated(atom()));
    return () => parts.map((write) => write()).join("");
  }

  function atom(): Write {
    const head = read(/\((?:\?(?:<?[=!]|:))?/y);
    if (head !== undefined) {
      const inside = alternatives();
      expect(read(/\)/y)).toBe(")");
      return head.endsWith("!") ? () => "" : inside;
    }
    if (read(/\\b|[$^]/y) !== undefined) return () => "";
    const sign = read(/\[(?:\\.|[^\]\\])*\]|\\x..|\\p\{L\}|\\.|./suy)!;
    if (sign.length === 1) return () => sign;
    const one = new RegExp(`^${sign}$`, "u");
    const fitting = Array.from("aZe _-59:\"'/\\\n│>❌✖✗×*[({╷|$.#", (letter) => letter).filter((letter) =>
      one.test(letter),
    );
    const known = sign.startsWith("\\") && fitting.length === 0 ? [sign.slice(1)] : fitting;
    const letters = sign.startsWith("[") && known.length === 0 ? [sign[1]!] : known;
    return () => letters[upTo(letters.length)]!;
  }

  function repeated(write: Write): Write {
    const found = read(/[*+?]|\{\d+,?\d*\}/y);
    if (found === undefined) return write;
    const least = found === "+" ? 1 : Number(/\d+/.exec(found)?.[0] ?? 0);
    return () => Array.from({ length: least + (/\{\d+\}/.test(found) ? 0 : upTo(2)) }, write).join("");
  }
}
