import { appendFile, mkdtemp, rename, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { CallLog } from "../../calls/log.ts";
import { LogFollower } from "./logs.ts";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "toolrack-follow-"));
});
afterAll(() => rm(folder, { recursive: true }));

it("gives whole lines that come after it began, also when a character comes in two pieces", async () => {
  const file = join(folder, "a.log");
  await writeFile(file, "old\n");
  const follower = await LogFollower.atEnd(file);
  const bytes = Buffer.from("新的\n");
  await appendFile(file, bytes.subarray(0, 4));
  expect(await follower.read()).toEqual([]);
  await appendFile(file, bytes.subarray(4));
  expect(await follower.read()).toEqual(["新的"]);
  expect(await follower.read()).toEqual([]);
  await follower.close();
});

it("loses and repeats nothing while the log is put aside again and again", async () => {
  const file = join(folder, "rotating.log");
  const log = new CallLog({ file, maxBytes: 1024, keep: 1000 });
  const follower = await LogFollower.atEnd(file);
  const seen: number[] = [];
  for (let number = 0; number < 300; number++) {
    log.write({ ts: "2026-01-01T00:00:00Z", number, padding: "x".repeat(number % 200) });
    log.flush();
    // Some reads see no rotation, some one, some several.
    if (number % 37 === 0 || number % 5 === 0)
      seen.push(...(await follower.read()).map((line) => JSON.parse(line).number));
  }
  seen.push(...(await follower.read()).map((line) => JSON.parse(line).number));
  expect(seen).toEqual(Array.from({ length: 300 }, (_, number) => number));
  log.close();
  await follower.close();
});

it("goes on after the file was emptied, moved away, or did not exist yet", async () => {
  const file = join(folder, "b.log");
  const follower = await LogFollower.atEnd(file);
  expect(await follower.read()).toEqual([]);
  await writeFile(file, "first\nsecond\n");
  expect(await follower.read()).toEqual(["first", "second"]);
  await truncate(file);
  await appendFile(file, "third\n");
  expect(await follower.read()).toEqual(["third"]);
  await rename(file, join(folder, "elsewhere"));
  expect(await follower.read()).toEqual([]);
  await writeFile(file, "fourth\n");
  expect(await follower.read()).toEqual(["fourth"]);
  await follower.close();
});
