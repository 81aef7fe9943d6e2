import { execFile } from "node:child_process";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";

const run = promisify(execFile);
const folder = join(import.meta.dirname, "testing");
const main = join(folder, "own-program.fixture.ts");

it("gives words that start the same program from another folder", async () => {
  const first = await run(process.execPath, ["--conditions=toolrack-source", "own-program.fixture.ts"], {
    cwd: folder,
  });
  const words: string[] = JSON.parse(first.stdout);
  expect(words).toEqual([process.execPath, "--conditions=toolrack-source", main]);
  const [program = "", ...args] = words;
  const second = await run(program, args, { cwd: tmpdir() });
  expect(second.stdout).toBe(first.stdout);
});
