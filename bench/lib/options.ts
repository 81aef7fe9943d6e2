import { parseArgs } from "node:util";
import { type ContestantName, contestants } from "../contestants/index.ts";
import { type SuiteName, suites } from "../suites/index.ts";

export interface Options {
  readonly suites: readonly SuiteName[];
  readonly rounds: number;
  /** `undefined` means all. */
  readonly only?: readonly ContestantName[];
  readonly json: boolean;
  readonly check: boolean;
}

export const usage = `npm run bench -- [SUITE…] [--rounds N] [--only NAME,…] [--json] [--check]

  SUITE      ${Object.keys(suites).join(", ")}; all of them when none is named
  --rounds   samples per contestant, each in a process of its own (3)
  --only     ${Object.keys(contestants).join(", ")};
             the first words of a name do: "ours" is every contestant of ours
  --json     print JSON instead of tables
  --check    exit 1 when a goal is missed`;

/** Throws with a sentence for the person at the keyboard when the arguments make no sense. */
export function parseOptions(args: readonly string[]): Options | "help" {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      rounds: { type: "string", default: "3" },
      only: { type: "string" },
      json: { type: "boolean", default: false },
      check: { type: "boolean", default: false },
      help: { type: "boolean", short: "h", default: false },
    },
  });
  if (values.help) return "help";
  const rounds = Number(values.rounds);
  if (!Number.isInteger(rounds) || rounds < 1)
    throw new Error(`--rounds ${values.rounds} is not a whole number above 0.`);
  return {
    suites: positionals.length > 0 ? positionals.map(toSuiteName) : (Object.keys(suites) as SuiteName[]),
    rounds,
    ...(values.only === undefined ? {} : { only: values.only.split(",").flatMap(toContestantNames) }),
    json: values.json,
    check: values.check,
  };
}

function toSuiteName(name: string): SuiteName {
  if (Object.hasOwn(suites, name)) return name as SuiteName;
  throw new Error(`There is no suite "${name}". Suites: ${Object.keys(suites).join(", ")}.`);
}

function toContestantNames(prefix: string): ContestantName[] {
  // Object.keys forgets the literal types of the keys.
  const names = Object.keys(contestants) as ContestantName[];
  const matches = names.filter((name) => name === prefix || name.startsWith(`${prefix}-`));
  if (matches.length > 0) return matches;
  throw new Error(`There is no contestant "${prefix}". Contestants: ${names.join(", ")}.`);
}
