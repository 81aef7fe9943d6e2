// `npm test`: types, lint and format, then the tests with coverage. All of them run; any failure fails the whole.
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { bringTestPrograms } from "./bring-test-programs.mjs";
import { findNode, root } from "./node-version.mjs";

const node = findNode();
const programsAreHere = bringTestPrograms();
const passed = process.argv.slice(2);

const checks = [
  ["types", "node_modules/typescript/bin/tsc", ["--noEmit"]],
  ["types of the console", "packages/console/scripts/check-types.mjs", []],
  ["lint and format", "node_modules/@biomejs/biome/bin/biome", ["check", "--error-on-warnings", "."]],
  ["tests", "node_modules/vitest/vitest.mjs", ["run", "--coverage", ...passed]],
];

const failed = programsAreHere ? [] : ["test programs"];
failed.push(...checks.filter(([name, file, args]) => !succeeds(name, file, args)).map(([name]) => name));
if (failed.length > 0) console.error(`\nFailed: ${failed.join(", ")}.`);
console.log(`\nchecks: ${checks.length + 1 - failed.length} passed, ${failed.length} failed`);
process.exit(failed.length === 0 ? 0 : 1);

function succeeds(name, file, args) {
  console.log(`\n== ${name}`);
  const { status, error } = spawnSync(node, [join(root, file), ...args], {
    cwd: root,
    stdio: "inherit",
  });
  if (error) console.error(error.message);
  return status === 0;
}
