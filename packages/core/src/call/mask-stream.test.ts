import { expect, it } from "vitest";
import { Mask } from "./mask.ts";
import { MaskStream } from "./mask-stream.ts";

const mask = new Mask(
  ["sk-Secret-12345", "12345-more", "root", "aaaa", "ΟΔΟΣ-key-7"],
  new Mask(["other-mask-value"]),
);
const text =
  "s sk sk- SK-secret-12345 sk-secret-12345-MORE! ro root Root rootroot aaaaaa οδος-KEY-7 οδοσ-key-7 other-MASK-value sk-sec";

it("masks a text the same however it is split into pieces", () => {
  const whole = mask.inText(text);
  expect(whole).toBe(
    "s sk sk- [redacted] [redacted]! ro [redacted] Root [redacted] [redacted] [redacted] [redacted] [redacted] sk-sec",
  );
  for (let size = 1; size < text.length; size++) {
    const pieces = Array.from({ length: Math.ceil(text.length / size) }, (_, at) =>
      text.slice(at * size, (at + 1) * size),
    );
    expect([size, shown(pieces)]).toEqual([size, whole]);
  }
  for (let first = 0; first < text.length; first++)
    for (let second = first; second < text.length; second += 3)
      expect(shown([text.slice(0, first), text.slice(first, second), text.slice(second)])).toBe(whole);
});

it("holds back only what may be the beginning of a value, and less than the longest value", () => {
  const stream = new MaskStream(new Mask(["sk-secret-number", "a".repeat(50)]));
  expect(stream.add("This is it: ")).toBe("This is it: ");
  expect(stream.add("tasks")).toBe("tasks");
  expect(stream.isHolding).toBe(false);
  expect(stream.add(" s")).toBe(" ");
  expect(stream.isHolding).toBe(true);
  expect(stream.add("o and sk-sec")).toBe("so and ");
  expect(stream.add("ond")).toBe("sk-second");
  expect(stream.isHolding).toBe(false);
  let out = stream.add("a".repeat(49));
  expect(out).toBe("");
  for (let count = 0; count < 200; count++) out += stream.add("a");
  expect(out).toBe("[redacted]");
  expect(out + stream.add(".") + stream.rest()).toBe("[redacted].");
});

it("gives out no more than two characters of a long value within a word", () => {
  const stream = new MaskStream(new Mask(["sk-secret-12345"]));
  const pieces = [..."asks-k-tosk-secret-12345sk-secret-12345!"].map((piece) => stream.add(piece));
  expect(pieces.join("") + stream.rest()).toBe("asks-k-tosk[redacted]!");
});

it("keeps back what was cut off within a value, but for a few characters", () => {
  const stream = new MaskStream(new Mask(["sk-secret-12345"]));
  expect(stream.add("It is sk-secr") + stream.rest(true)).toBe("It is ");
  expect(stream.add("It is s") + stream.rest(true)).toBe("It is s");
});

it("begins anew after the rest", () => {
  const stream = new MaskStream(mask);
  expect(stream.add("sk-sec") + stream.rest()).toBe("sk-sec");
  expect(stream.add("ret-12345") + stream.rest()).toBe("ret-12345");
  expect(stream.add("root") + stream.rest() + stream.add("root") + stream.rest()).toBe(
    "[redacted][redacted]",
  );
});

function shown(pieces: readonly string[]): string {
  const stream = new MaskStream(mask);
  return pieces.map((piece) => stream.add(piece)).join("") + stream.rest();
}
