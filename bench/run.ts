import { mkdirSync, writeFileSync } from "node:fs";
import { cpus, loadavg } from "node:os";
import { contestants } from "./contestants/index.ts";
import { measure } from "./lib/measure.ts";
import { type Options, parseOptions, usage } from "./lib/options.ts";
import { installPeers } from "./lib/peers.ts";
import type { Subject, Suite } from "./lib/suite.ts";
import { renderTable } from "./lib/table.ts";
import { type SuiteName, suites } from "./suites/index.ts";

const options = readOptions();
// Suites without peers need none of them. BullMQ is a part of ours.
const isOwn = (name: string) => /^(?:ours|bullmq)\b/.test(name);
const isAlone = (suite: Suite) => suite.contestants.every(isOwn);
if (!options.suites.every((name) => isAlone(suites[name] as Suite))) installPeers(say); // Each name was checked to be that of a suite.

const results = [];
for (const suiteName of options.suites) results.push(await runSuite(suiteName, options));

const environment = {
  at: new Date().toISOString(),
  node: process.version,
  cpu: cpus()[0]?.model,
  cores: cpus().length,
  loadAverage: loadavg(),
};
const file = save(JSON.stringify({ environment, results }, null, 2));
if (options.json) console.log(JSON.stringify({ environment, results }, null, 2));
say(`Saved ${file}`);

const failures = results.flatMap((result) => result.failures);
const goals = results.flatMap((result) => result.goals);
const missed = goals.filter((goal) => !goal.met);
for (const failure of failures) say(`Failed: ${failure}`);
if (goals.length > 0) say(`Goals met: ${goals.length - missed.length} of ${goals.length}`);
process.exitCode = failures.length > 0 || (options.check && missed.length > 0) ? 1 : 0;

async function runSuite(suiteName: SuiteName, { rounds, only, json }: Options) {
  // Each suite knows its own samples; here they only pass through.
  const suite = suites[suiteName] as Suite;
  const subjects = listSubjects(suite, only);
  const measured = await measure(
    suiteName,
    subjects,
    { rounds, limit: suite.limit },
    (done, total, subject) => {
      say(`${suiteName} ${done}/${total}: ${contestants[subject.contestant].title}, ${subject.variant}`);
    },
  );
  const { tables, goals } = suite.report(measured.filter((entry) => entry.failure === undefined));
  if (!json) {
    console.log(`\n## ${suite.title}\n`);
    for (const table of tables) console.log(renderTable(table));
  }
  const failures = measured
    .filter((entry) => entry.failure !== undefined)
    .map(
      (entry) => `${suiteName}, ${contestants[entry.contestant].title}, ${entry.variant}: ${entry.failure}`,
    );
  return { suite: suiteName, rounds, tables, goals, failures, measured };
}

function listSubjects(suite: Suite, only: Options["only"]): Subject[] {
  const chosen = suite.contestants.filter(
    (name) => only === undefined || [suite.floor, ...(suite.references ?? []), ...only].includes(name),
  );
  const all = suite.variants.flatMap((variant) => chosen.map((contestant) => ({ contestant, variant })));
  return all.filter((subject) => suite.takesPart?.(subject) ?? true);
}

function save(text: string): string {
  const directory = new URL("./results/", import.meta.url);
  mkdirSync(directory, { recursive: true });
  const name = `${new Date().toISOString().replaceAll(":", "-").replace(/\..*/, "")}-${options.suites.join("-")}.json`;
  writeFileSync(new URL(name, directory), `${text}\n`);
  return `bench/results/${name}`;
}

function readOptions(): Options {
  try {
    const parsed = parseOptions(process.argv.slice(2));
    if (parsed !== "help") return parsed;
    console.log(usage);
    process.exit(0);
  } catch (error) {
    say(`${error instanceof Error ? error.message : error}\n\n${usage}`);
    process.exit(2);
  }
}

/** Talk goes to stderr, so that stdout is the tables or the JSON alone. */
function say(line: string): void {
  console.error(line);
}
