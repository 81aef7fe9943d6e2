import { type LoadFailure, whereOf } from "../helpers/index.ts";
import { type Difference, type Problem, showPair } from "./expectation.ts";
import type { TestReport, TestResult } from "./runner.ts";

/** How many differences of a problem are shown. */
const MOST_SHOWN = 12;

/** A text without the characters that control a terminal: tools and other servers may have written it. */
function plain(text: string): string {
  return text.replace(/[^\P{Cc}\n\t]/gu, "�");
}

type Style = (style: "green" | "red" | "dim" | "bold" | "yellow", text: string) => string;

/** A test for people: one line when it passed, and all that does not hold when it failed. */
export function resultLines(result: TestResult, style: Style): string[] {
  const { status, file, line, name, tool, problems, notes, updated } = result;
  const mark = status === "passed" ? style("green", "✓") : style("red", "✗");
  const head = `${mark} ${plain(name)}  ${style("dim", plain(`${tool}  ${file}:${line}`))}${updated ? style("yellow", "  updated") : ""}`;
  const said = notes.map((note) => style("dim", `    ${plain(note)}`));
  return [head, ...problems.flatMap((problem) => problemLines(problem, style)), ...said];
}

function problemLines({ kind, message, differences = [] }: Problem, style: Style): string[] {
  const shown = differences.slice(0, MOST_SHOWN).flatMap((difference) => differenceLines(difference, style));
  const rest = differences.length - MOST_SHOWN;
  return [
    `    ${style("bold", kind)}: ${plain(message)}`,
    ...shown.map((line) => `      ${line}`),
    ...(rest > 0 ? [`      … and ${rest} more places`] : []),
  ];
}

function differenceLines({ path, expected, actual }: Difference, style: Style): string[] {
  const [left, right] = showPair(expected, actual).map(plain);
  return [
    path === "" ? "(the whole value)" : plain(path),
    `  ${style("green", `expected ${left}`)}`,
    `  ${style("red", `got      ${right}`)}`,
  ];
}

export function failureLines(failure: LoadFailure, style: Style): string[] {
  const { reason, remedy } = failure;
  return [`${style("red", "✗")} ${whereOf(failure)}: ${plain(reason)}`, `    ${remedy}`];
}

export function summaryLine(
  { results, passed, failed, failures, duration }: TestReport,
  style: Style,
): string {
  const updated = results.filter((result) => result.updated).length;
  const words = [
    style(failed === 0 ? "green" : "dim", `${passed} passed`),
    ...(failed === 0 ? [] : [style("red", `${failed} failed`)]),
    ...(failures.length === 0 ? [] : [`${failures.length} of them in files that cannot be read`]),
    ...(updated === 0 ? [] : [style("yellow", `${updated} updated`)]),
  ];
  return `${words.join(", ")} (${Math.round(duration)} ms)`;
}

/** The problems of a test as one text, without colours. */
export function problemText(problems: readonly Problem[]): string {
  const unstyled: Style = (_style, text) => text;
  return problems.flatMap((problem) => problemLines(problem, unstyled)).join("\n");
}

/** The report in the form that build servers read: one suite for each file. */
export function toJUnit({ results, failures, duration }: TestReport): string {
  const suites = Map.groupBy(results, ({ file }) => file);
  for (const { file } of failures) if (!suites.has(file)) suites.set(file, []);
  const parts = [...suites].map(([file, tests]) => {
    const broken = failures.filter((failure) => failure.file === file);
    const failed = tests.filter(({ status }) => status === "failed").length + broken.length;
    const cases = [
      ...tests.map((test) => caseOf(test)),
      ...broken.map(
        ({ line = 1, reason, remedy }) =>
          `    <testcase name="${xml(`${file}:${line}`)}" classname="${xml(file)}"><failure message="${xml(reason)}">${xml(remedy)}</failure></testcase>`,
      ),
    ];
    const count = tests.length + broken.length;
    return `  <testsuite name="${xml(file)}" tests="${count}" failures="${failed}">\n${cases.join("\n")}\n  </testsuite>`;
  });
  return `<?xml version="1.0" encoding="UTF-8"?>\n<testsuites time="${seconds(duration)}">\n${parts.join("\n")}\n</testsuites>`;
}

function caseOf({ name, tool, file, line, duration, problems }: TestResult): string {
  const head = `    <testcase name="${xml(name)}" classname="${xml(tool)}" file="${xml(file)}" line="${line}" time="${seconds(duration)}"`;
  if (problems.length === 0) return `${head}/>`;
  const message = problems[0]?.message ?? "";
  return `${head}><failure message="${xml(message)}">${xml(problemText(problems))}</failure></testcase>`;
}

function seconds(milliseconds: number): string {
  return (milliseconds / 1000).toFixed(3);
}

const entities: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };

/** A text for XML, without the characters that XML does not have. */
function xml(text: string): string {
  return text
    .toWellFormed()
    .replace(/[^\P{Cc}\t\n\r]|[\ufffe\uffff]/gu, "�")
    .replace(/[&<>"]/g, (one) => entities[one] ?? one);
}
