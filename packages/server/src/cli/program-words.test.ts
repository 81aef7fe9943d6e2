import { mkdirSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { expect, it } from "vitest";
import { temporaryFolder } from "../testing/temporary-folder.ts";
import { programWords } from "./program-words.ts";

/** A folder whose packages have the program. */
function install(): { readonly folder: string; readonly bin: string } {
  const folder = temporaryFolder();
  const bin = join(folder, "node_modules", ".bin");
  mkdirSync(bin, { recursive: true });
  writeFileSync(join(bin, "toolrack"), "");
  return { folder, bin };
}

it("says toolrack where the person's PATH has it", () => {
  const { bin } = install();
  const elsewhere = temporaryFolder();
  const environment = { PATH: [elsewhere, bin].join(delimiter) };
  expect(programWords({ directory: elsewhere, environment, own: elsewhere })).toBe("toolrack");
});

it("says npx toolrack in and below a folder whose packages have it, whatever npm put into the PATH", () => {
  const { folder, bin } = install();
  const below = join(folder, "examples", "workspace");
  mkdirSync(below, { recursive: true });
  for (const directory of [folder, below]) {
    const environment = { PATH: bin, npm_lifecycle_event: "npx" };
    expect(programWords({ directory, environment, own: folder })).toBe("npx toolrack");
    expect(programWords({ directory, environment: {}, own: folder })).toBe("npx toolrack");
  }
});

it("names the folder of the program everywhere else, where npx alone would fetch a stranger's package", () => {
  const { folder, bin } = install();
  const environment = { PATH: bin, npm_lifecycle_event: "npx" };
  const own = join(folder, "packages", "server");
  mkdirSync(own, { recursive: true });
  expect(programWords({ directory: temporaryFolder(), environment, own })).toBe(
    `npx --prefix ${folder} toolrack`,
  );
});

it("gives the words that started it where it is installed nowhere", () => {
  const elsewhere = temporaryFolder();
  expect(programWords({ directory: elsewhere, environment: {}, own: elsewhere })).toContain(process.execPath);
});
