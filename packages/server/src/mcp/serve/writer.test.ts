import { PassThrough } from "node:stream";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { MessageWriter } from "./writer.ts";

const MEGABYTE = 1024 * 1024;

function unread() {
  const output = new PassThrough();
  const heard: unknown[] = [];
  const writer = new MessageWriter(output, {
    frame: ["", "\n"],
    most: 64 * MEGABYTE,
    overflowed: (characters) => heard.push(characters),
  });
  return { output, writer, heard };
}

test("news that a client did not read are told once, in the place of the last", async () => {
  const { output, writer } = unread();
  const tell = (kind: string) => writer.send({ method: `${kind}/list_changed` });
  tell("tools");
  writer.write("x".repeat(MEGABYTE));
  for (let at = 0; at < 100; at++) for (const kind of ["prompts", "tools", "prompts"]) tell(kind);
  writer.write("answer");
  writer.flush();
  expect(writer.flow.isFull).toBe(true);
  const all = text(output);
  await new Promise<void>((resolve) => {
    writer.flow.whenFreed(resolve);
  });
  writer.flush();
  output.end();
  const lines = (await all).split("\n").map((line) => /"(\w+)\//.exec(line)?.[1] ?? line.slice(0, 10));
  expect(lines).toEqual(["tools", "x".repeat(10), "answer", "tools", "prompts", ""]);
});

test("one line is written, however long it is; who leaves too much unread is told so once", async () => {
  const { writer, heard } = unread();
  writer.write("x".repeat(65 * MEGABYTE));
  writer.flush();
  expect(heard).toEqual([]);
  for (let at = 0; at < 3; at++) {
    writer.write("more");
    writer.flush();
  }
  expect(heard).toEqual([65 * MEGABYTE + 1]);
  expect(writer.unread).toBe(65 * MEGABYTE + 1);
});
