import { expect, it } from "vitest";
import { EventTooLong, readSse } from "./answer-reader.ts";

async function* bytesOf(pieces: Iterable<string>): AsyncGenerator<Uint8Array> {
  const encoder = new TextEncoder();
  for (const piece of pieces) yield encoder.encode(piece);
}

async function read(pieces: Iterable<string>, longest?: number): Promise<string[]> {
  const events: string[] = [];
  for await (const data of readSse(bytesOf(pieces), longest)) events.push(data);
  return events;
}

it("gives an event as soon as its end is there, with any line ends", async () => {
  expect(
    await read(["data: a\r", "\n\r\nda", "ta:b\r\rdata: c\n", "data: d\n\n", ": no\n\nid: 1\n\n"]),
  ).toEqual(["a", "b", "c\nd"]);
});

it("reads a long line in a time that grows with its length", { timeout: 60_000 }, async () => {
  function* pieces(): Generator<string> {
    yield "data: ";
    for (let at = 0; at < 60_000; at++) yield "x".repeat(500);
    yield "\n\n";
  }
  const [data] = await read(pieces());
  expect(data).toHaveLength(30_000_000);
});

it("gives up on an event that is too long, in one line or in many, and on nothing else", async () => {
  await expect(read(["data: ", "x".repeat(60), "x".repeat(60)], 100)).rejects.toThrow(EventTooLong);
  await expect(read(Array(20).fill("data: 12345\n"), 100)).rejects.toThrow(EventTooLong);
  expect(await read(Array(20).fill("data: 12345\n\n"), 100)).toHaveLength(20);
});
