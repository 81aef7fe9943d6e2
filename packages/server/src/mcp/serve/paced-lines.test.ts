import { once } from "node:events";
import { PassThrough } from "node:stream";
import { expect, test } from "vitest";
import { PacedLines } from "./paced-lines.ts";

function reading(isFull: () => boolean = () => false, input = new PassThrough()) {
  const lines: string[] = [];
  let freed = () => {};
  const begun = Promise.withResolvers<void>();
  const ended = Promise.withResolvers<void>();
  const reader = new PacedLines(input, 1_000, {
    onLine(line) {
      lines.push(line);
      begun.resolve();
    },
    onTooLong: () => lines.push("too long"),
    end: ended.resolve,
    close: () => lines.push("closed"),
    error: ended.reject,
    isFull,
    whenFreed(act) {
      freed = act;
    },
  });
  reader.start();
  return { input, lines, reader, free: () => freed(), begun: begun.promise, ended: ended.promise };
}

const many = Array.from({ length: 1_000 }, (_, at) => `line ${at}`);

test("lines are taken whole, wherever their parts come apart, and the last needs no end", async () => {
  const { input, lines, ended } = reading();
  const bytes = Buffer.from([...many, "…", "x".repeat(2_000), "the last"].join("\n"));
  for (let at = 0; at < bytes.length; at += 7) input.write(bytes.subarray(at, at + 7));
  input.end();
  await ended;
  expect(lines).toEqual([...many, "…", "too long", "the last"]);
});

test("many lines are not taken in one turn, and the end comes after all of them", async () => {
  const { input, lines, begun, ended } = reading();
  input.end(many.join("\n"));
  await begun;
  expect(lines.length).toBeLessThan(100);
  await ended;
  expect(lines).toEqual(many);
});

test("who is full is given no more until there is room, and the end comes after all that was held back", async () => {
  let room = 10;
  const { input, lines, free, ended } = reading(() => room-- <= 0);
  input.end(many.join("\n"));
  await once(input, "close");
  expect(lines).toEqual(many.slice(0, 10));
  room = Number.POSITIVE_INFINITY;
  free();
  await ended;
  expect(lines).toEqual(many);
});

test("an input that has ended before anybody listens is one that ends", async () => {
  const input = new PassThrough();
  input.resume().end();
  await once(input, "close");
  const { lines, ended } = reading(undefined, input);
  await ended;
  expect(lines).toEqual([]);
});

test("an input that was broken off before anybody listens is one that breaks off", async () => {
  const input = new PassThrough();
  input.destroy();
  await once(input, "close");
  const { lines } = reading(undefined, input);
  await new Promise(setImmediate);
  expect(lines).toEqual(["closed"]);
});

test("who stops is given nothing more", async () => {
  const { input, lines, reader, begun } = reading();
  input.write(`${many.join("\n")}\n`);
  await begun;
  const taken = lines.length;
  reader.stop();
  input.end();
  await new Promise(setImmediate);
  expect(lines).toHaveLength(taken);
});
