// `npm test`: types, lint and format, then the tests. All of them run; any failure fails the whole.
// `npm run test:slow`: only what takes long (`*.slow.test.ts`, and some others in their whole depth), with figures.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
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
const slow = ["slow tests", vitest, ["run", "--config", "vitest.slow.config.ts", ...passed], withCache];
const readingChecks = [
  ["types", "node_modules/typescript/bin/tsc", ["--noEmit"]],
  ["types of core, without Node", "node_modules/typescript/bin/tsc", ["-p", "packages/core", "--noEmit"]],
  ["types of the console", "packages/console/scripts/check-types.mjs", []],
  ["lint and format", "node_modules/@biomejs/biome/bin/biome", ["check", "--error-on-warnings", "."]],
];
/** In each phase, the first check is shown as it runs. The others run beside it, and are told of when it has ended. */
const phases = isSlow ? [[slow]] : testPhases();

/** What failed in the tests, said once more at the end. */
const failures = [];
const failed = programsAreHere ? [] : ["test programs"];
for (const [shown, ...beside] of phases) {
  const others = beside.map(async (check) => {
    const said = [];
    const isPassed = await succeeds(check, said);
    return { name: check[0], isPassed, said };
  });
  if (!(await succeeds(shown))) failed.push(shown[0]);
  for (const { name, isPassed, said } of await Promise.all(others)) {
    process.stdout.write(said.join(""));
    if (!isPassed) failed.push(name);
  }
}
rmSync(compiled, { recursive: true, force: true });
if (failed.length > 0) console.error(`\nFailed: ${failed.join(", ")}.\n${failures.slice(0, 20).join("\n")}`);
console.log(`\nchecks: ${phases.flat().length + 1 - failed.length} passed, ${failed.length} failed`);
process.exit(failed.length === 0 ? 0 : 1);

function testPhases() {
  // Of a part of the tests, the coverage says nothing.
  if (passed.some((word) => !word.startsWith("-")))
    return [[["tests", vitest, ["run", ...passed], withCache], ...readingChecks]];
  const run = (...words) => ["run", ...words, ...passed];
  // They wait for nothing: more workers than cores would only hold each other up.
  const core = ["--project", "core", "--maxWorkers", String(availableParallelism())];
  const others = ["--project", "rack", "--project", "console"];
  // Two browsers would hold each other up, while most other tests wait for something.
  const browser = ["--project", "e2e", "--maxWorkers", "1"];
  return [
    // Measuring slows down what is measured, so only the tests are measured whose coverage counts.
    [["tests of core, with coverage", vitest, run(...core, "--coverage")], ...readingChecks],
    [
      ["tests of all else", vitest, run(...others), withCache],
      ["tests in a browser", vitest, run(...browser), withCache],
    ],
  ];
}

/** What it says is shown at once, or added to the list that is given. */
async function succeeds([name, file, args, environment = {}], said) {
  const place = join(compiled, `failures-of-${name.replaceAll(" ", "-")}.json`);
  const noting = { ...environment, TOOLRACK_FAILURES: place };
  if (await runs(name, file, args, noting, said)) return true;
  const { files: again, said: first } = failuresAt(place);
  if (process.env.CI && again.length > 0 && again.length <= MOST_AGAIN) {
    const alone = args.filter((word) => word !== "--coverage");
    rmSync(place);
    if (await runs(`${name}: ${again.join(", ")} again, alone`, file, [...alone, ...again], noting, said)) {
      tell(`\nFLAKY: ${again.join(", ")} failed, and passed when run again alone. Mend it.\n`, said);
      return true;
    }
  }
  failures.push(...first, ...failuresAt(place).said.filter((text) => !first.includes(text)));
  return false;
}

/** What the reporter of the tests wrote; nothing for a check that is no test, or a run that did not come to its end. */
function failuresAt(place) {
  return existsSync(place) ? JSON.parse(readFileSync(place, "utf8")) : { files: [], said: [] };
}

async function runs(name, file, args, environment, said) {
  tell(`\n== ${name}\n`, said);
  const child = spawn(node, [join(root, file), ...args], {
    cwd: root,
    stdio: said === undefined ? "inherit" : ["ignore", "pipe", "pipe"],
    env: { ...process.env, ...environment },
  });
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding("utf8").on("data", (text) => tell(text, said));
  const [status] = await once(child, "close").catch((error) => [tell(`${error.message}\n`, said)]);
  return status === 0;
}

function tell(text, said) {
  if (said === undefined) process.stdout.write(text);
  else said.push(text);
}
