import { mkdirSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { expect, it } from "vitest";
import { temporaryFolder } from "../testing/temporary-folder.ts";
import { ownProgram, programWords } from "./cli.ts";

const program = ownProgram();

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
  expect(programWords({ cwd: elsewhere, env: environment, program }, elsewhere)).toBe("toolrack");
});

it("says npx toolrack in and below a folder whose packages have it, whatever npm put into the PATH", () => {
  const { folder, bin } = install();
  const below = join(folder, "examples", "workspace");
  mkdirSync(below, { recursive: true });
  for (const directory of [folder, below]) {
    const environment = { PATH: bin, npm_lifecycle_event: "npx" };
    expect(programWords({ cwd: directory, env: environment, program }, folder)).toBe("npx toolrack");
    expect(programWords({ cwd: directory, env: {}, program }, folder)).toBe("npx toolrack");
  }
});

it("names the folder of the program everywhere else, where npx alone would fetch a stranger's package", () => {
  const { folder, bin } = install();
  const environment = { PATH: bin, npm_lifecycle_event: "npx" };
  const own = join(folder, "packages", "server");
  mkdirSync(own, { recursive: true });
  expect(programWords({ cwd: temporaryFolder(), env: environment, program }, own)).toBe(
    `npx --prefix ${folder} toolrack`,
  );
});

it("gives the words that started it where it is installed nowhere", () => {
  const elsewhere = temporaryFolder();
  expect(programWords({ cwd: elsewhere, env: {}, program }, elsewhere)).toContain(process.execPath);
});
