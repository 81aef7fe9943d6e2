// `npm test`: types, lint and format, then the tests. All of them run; any failure fails the whole.
// `npm run test:slow`: only what takes long (`*.slow.test.ts`, and some others in their whole depth), with figures.
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bringTestPrograms } from "./bring-test-programs.mjs";
import { findNode, root } from "./node-version.mjs";

const node = findNode();
const isSlow = process.argv.includes("--slow");
const passed = process.argv.slice(2).filter((word) => word !== "--slow");
const programsAreHere = bringTestPrograms(isSlow);
const vitest = "node_modules/vitest/vitest.mjs";
// What tests start from source is compiled once for all of them; each start would take twice as long otherwise.
const compiled = mkdtempSync(join(tmpdir(), "toolrack-compiled-"));
const withCache = { NODE_COMPILE_CACHE: compiled };

/** In CI, so many files that failed are run again, alone. More than that is no accident of a busy machine. */
const MOST_AGAIN = 3;
const slow = ["run", "--config", "vitest.slow.config.ts", ...passed];
const checksOfText = [
  ["types", "node_modules/typescript/bin/tsc", ["--noEmit"]],
  ["types of core, without Node", "node_modules/typescript/bin/tsc", ["-p", "packages/core", "--noEmit"]],
  ["types of the console", "packages/console/scripts/check-types.mjs", []],
  ["lint and format", "node_modules/@biomejs/biome/bin/biome", ["check", "--error-on-warnings", "."]],
];
const checks = isSlow ? [["slow tests", vitest, slow, withCache]] : [...checksOfText, ...tests()];

const failed = programsAreHere ? [] : ["test programs"];
// Each of them uses one core most of the time, as the last tests of a run do: side by side they take less time.
const reading = isSlow ? [] : checksOfText.map(outcomeOf);
for (const check of checks.filter((one) => !checksOfText.includes(one))) {
  if (!(await succeeds(...check))) failed.push(check[0]);
  // Told of once the first tests have said what they say.
  for (const { name, isPassed, said } of await Promise.all(reading.splice(0))) {
    console.log(`\n== ${name}\n${said}`);
    if (!isPassed) failed.push(name);
  }
}
rmSync(compiled, { recursive: true, force: true });
if (failed.length > 0) console.error(`\nFailed: ${failed.join(", ")}.`);
console.log(`\nchecks: ${checks.length + 1 - failed.length} passed, ${failed.length} failed`);
process.exit(failed.length === 0 ? 0 : 1);

function outcomeOf([name, file, args]) {
  return new Promise((resolve) => {
    const command = [join(root, file), ...args];
    execFile(node, command, { cwd: root, maxBuffer: 2 ** 28 }, (error, output, complaints) => {
      resolve({ name, isPassed: error === null, said: output + complaints });
    });
  });
}

function tests() {
  // Of a part of the tests, the coverage says nothing.
  if (passed.some((word) => !word.startsWith("-"))) return [["tests", vitest, ["run", ...passed], withCache]];
  return [
    // Measuring slows down what is measured, so only the tests are measured whose coverage counts.
    ["tests of core, with coverage", vitest, ["run", "--project", "core", "--coverage", ...passed]],
    ["tests of all else", vitest, ["run", "--project", "!core", ...passed], withCache],
  ];
}

async function succeeds(name, file, args, environment = {}) {
  const failedFiles = join(compiled, "failed-files.txt");
  rmSync(failedFiles, { force: true });
  if (await runs(name, file, args, { ...environment, TOOLRACK_FAILED_FILES: failedFiles })) return true;
  const again = existsSync(failedFiles) ? readFileSync(failedFiles, "utf8").split("\n").filter(Boolean) : [];
  if (!process.env.CI || again.length === 0 || again.length > MOST_AGAIN) return false;
  const alone = args.filter((word) => word !== "--coverage");
  const title = `${name}: ${again.join(", ")} again, alone`;
  if (!(await runs(title, file, [...alone, ...again], environment))) return false;
  console.error(`\nFLAKY: ${again.join(", ")} failed, and passed when run again alone. Mend it.`);
  return true;
}

async function runs(name, file, args, environment) {
  console.log(`\n== ${name}`);
  const child = spawn(node, [join(root, file), ...args], {
    cwd: root,
    stdio: "inherit",
    env: { ...process.env, ...environment },
  });
  const [status] = await once(child, "close").catch((error) => [console.error(error.message)]);
  return status === 0;
}
