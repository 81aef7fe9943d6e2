import { expect, test } from "vitest";
import { CappedOutput } from "./shell-command.ts";

test("output within the limit stays as it was, however it was cut into pieces", () => {
  const output = new CappedOutput(12);
  for (const byte of Buffer.from("grüße 語")) output.write(Buffer.from([byte]));
  expect([output.toString(), output.size]).toEqual(["grüße 語", 11]);
});

test("of longer output the two ends are kept, and the gap is counted", () => {
  const output = new CappedOutput(10);
  for (let number = 0; number < 10; number++) output.write(Buffer.from(String(number).repeat(3)));
  expect(output.toString()).toBe("00011\n[… 20 of 30 bytes left out …]\n88999");
  expect(output.size).toBe(30);
});

test("exactly the limit is not cut, one byte more is", () => {
  const output = new CappedOutput(4);
  output.write(Buffer.from("abcd"));
  expect(output.toString()).toBe("abcd");
  output.write(Buffer.from("e"));
  expect(output.toString()).toBe("ab\n[… 1 of 5 bytes left out …]\nde");
});

test("characters are not cut in half", () => {
  const output = new CappedOutput(10);
  output.write(Buffer.from("語".repeat(20)));
  expect(output.toString()).toBe("語\n[… 50 of 60 bytes left out …]\n語");
});
