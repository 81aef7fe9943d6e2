import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { testDepth } from "../../../../scripts/test-depth.ts";
import { hashText } from "./hash.ts";

describe("hashText", () => {
  it("gives 16 hexadecimal digits, the same every time", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => {
        expect(hashText(text)).toMatch(/^[0-9a-f]{16}$/);
        expect(hashText(text)).toBe(hashText(`${text}`));
      }),
    );
  });

  it("stays the same from version to version, since hashes are stored", () => {
    expect([hashText(""), hashText("a"), hashText("toolrack"), hashText("工具")]).toMatchInlineSnapshot(`
      [
        "dcdd23c88dcc2bf8",
        "8387654b39aaffc1",
        "754d7ff282d14033",
        "95fe1f86dc3c8f32",
      ]
    `);
  });

  it("has no collisions among many similar texts", () => {
    const seen = new Set<string>();
    const count = testDepth(200_000, 20_000);
    for (let index = 0; index < count; index++) seen.add(hashText(`{"id":${index}}`));
    for (let index = 0; index < 1000; index++) seen.add(hashText("a".repeat(index)));
    for (let index = 1; index <= 1000; index++) seen.add(hashText("\0".repeat(index)));
    expect(seen.size).toBe(count + 2_000);
  });

  it("tells apart texts that differ in any two bits", () => {
    const seen = new Set<string>();
    const base = [0x61, 0x62, 0x63, 0x64, 0x65];
    let count = 0;
    for (let first = 0; first < 80; first++) {
      for (let second = first; second < 80; second++) {
        const codes = [...base];
        codes[first >> 4]! ^= 1 << (first & 15);
        if (second !== first) codes[second >> 4]! ^= 1 << (second & 15);
        seen.add(hashText(String.fromCharCode(...codes)));
        count++;
      }
    }
    expect(seen.size).toBe(count);
  });

  it("changes about half of its bits when one bit of the text changes", () => {
    let changed = 0;
    let trials = 0;
    for (let index = 0; index < 500; index++) {
      const text = `key-${index}-value`;
      const before = BigInt(`0x${hashText(text)}`);
      for (let bit = 0; bit < 7; bit++) {
        const position = index % text.length;
        const code = text.charCodeAt(position) ^ (1 << bit);
        const other = text.slice(0, position) + String.fromCharCode(code) + text.slice(position + 1);
        changed += (before ^ BigInt(`0x${hashText(other)}`)).toString(2).replaceAll("0", "").length;
        trials++;
      }
    }
    expect(changed / trials).toBeGreaterThan(31);
    expect(changed / trials).toBeLessThan(33);
  });
});
