import {
  InvalidArgumentError,
  type RegistrySnapshot,
  Tool,
  type ToolContext,
  type ToolInfo,
  type ToolRegistry,
} from "@toolrack/core";
import { limitTime } from "@toolrack/core/internal";
import { runToolName } from "../calls/index.ts";
import type { Sandbox } from "../sandbox/index.ts";
import { catalogueOf, isForCode } from "./catalogue.ts";
import type { CodeRuns } from "./code-runs.ts";
import type { RunOutcome } from "./run.ts";
import { linesOf, notForCode, unknownPath } from "./run-errors.ts";
import { CodeProblem, LONGEST_CODE, type PreparedCode, prepareCode } from "./source.ts";
import { ToolPaths } from "./tool-paths.ts";

/** Milliseconds that code may run, without the time for which people are waited for. */
const USUAL_TIMEOUT = 120_000;
const LONGEST_TIMEOUT = 600_000;

const DESCRIPTION = `Runs TypeScript or JavaScript that calls tools, and answers with what it returns. Use it for several calls, loops, and to keep large results out of the conversation. await and return work at the top level:

const issues = await tools.github.list_issues({ repo: "a/b" });
return issues.filter((issue) => issue.comments > 5).map(({ title }) => title);

Each tool takes one object. Calls may run at once with Promise.all. A failed tool throws an error with code and recoverable.
search(words) finds tools, describe(name) tells what one takes and gives, step(name, fn) names a part of the work, console.log adds to the answer. There is no network, no files and no Node: only tools reach the outside.`;

/** What code runs with. */
export interface CodeToolParts {
  readonly registry: ToolRegistry;
  readonly sandbox: () => Promise<Sandbox>;
  readonly runs: CodeRuns;
}

/**
 * The tool that runs code. `offered`: whether models are shown it always, only where they are shown the meta-tools in place
 * of most tools (`many`), or not at all. Calls by its name work in any case.
 */
export function runTool(parts: CodeToolParts, offered: "always" | "many" | "never"): ToolInfo {
  return Tool.define({
    name: runToolName,
    title: "Run code over tools",
    description: DESCRIPTION,
    parameters: {
      type: "object",
      properties: {
        code: {
          type: "string",
          minLength: 1,
          maxLength: LONGEST_CODE,
          description: "TypeScript or JavaScript. The tools that it can call:",
        },
        timeout: {
          type: "integer",
          minimum: 1,
          maximum: LONGEST_TIMEOUT,
          default: USUAL_TIMEOUT,
          description: "Milliseconds that it may run. Waiting for a person does not count.",
        },
      },
      required: ["code"],
      additionalProperties: false,
    },
    metadata: { timeout: LONGEST_TIMEOUT, task: "optional", offered },
    execute: async (context) => {
      const { code, timeout = USUAL_TIMEOUT } = context.input;
      limitTime(context, timeout);
      const paths = ToolPaths.of(parts.registry.snapshot());
      const prepared = await prepareChecked(code, paths, context);
      const sandbox = await parts.sandbox();
      return toResult(await parts.runs.run(context, { sandbox, code: prepared, paths }));
    },
  });
}

/**
 * The tools of a list, where the one that runs code tells which tools its caller can use in code. That stands in the
 * description of its parameter, because some providers cut those of tools.
 */
export function withCatalogue(
  shown: readonly ToolInfo[],
  seen: readonly ToolInfo[],
  registry: Pick<ToolRegistry, "snapshot">,
): ToolInfo[] {
  return shown.map((tool) =>
    tool.name === runToolName ? catalogued(tool, seen, registry.snapshot()) : tool,
  );
}

interface Catalogued {
  readonly tool: ToolInfo;
  readonly seen: readonly ToolInfo[];
  readonly made: ToolInfo;
}

/** For each version of the rack, the tools that were made last: most callers see the same tools as one before. */
const known = new WeakMap<RegistrySnapshot, readonly Catalogued[]>();
const MOST_KNOWN = 8;

function catalogued(tool: ToolInfo, seen: readonly ToolInfo[], snapshot: RegistrySnapshot): ToolInfo {
  const all = known.get(snapshot) ?? [];
  const isSame = (others: readonly ToolInfo[]) =>
    others.length === seen.length && others.every((other, at) => other === seen[at]);
  const found = all.find((one) => one.tool === tool && isSame(one.seen));
  if (found !== undefined) return found.made;
  const { properties } = tool.parameters;
  const description = `${properties.code.description}\n\n${catalogueOf(seen, ToolPaths.of(snapshot))}`;
  const code = { ...properties.code, description };
  const made = { ...tool, parameters: { ...tool.parameters, properties: { ...properties, code } } };
  known.set(snapshot, [{ tool, seen, made }, ...all].slice(0, MOST_KNOWN));
  return made;
}

/** Reads the code and looks for tools that it names and that its caller does not have. Throws before anything runs. */
async function prepareChecked(
  code: string,
  paths: ToolPaths,
  { registry }: Pick<ToolContext, "registry">,
): Promise<PreparedCode> {
  const prepared = await prepareCode(code).catch((thrown: unknown) => {
    throw thrown instanceof CodeProblem ? refusal([thrown.message], thrown.line) : thrown;
  });
  const isSeen = (name: string) => registry.get(name) !== undefined;
  const problems = prepared.uses.flatMap(({ parts, line }) => {
    const [first = ""] = parts;
    const name = paths.find(parts);
    const info = name === undefined ? undefined : registry.get(name);
    if (info !== undefined) return isForCode(info) ? [] : [{ line, text: notForCode(info.name).message }];
    // A namespace alone, or a member of a function such as `bind`.
    const isPart = parts.length === 1 ? paths.isNamespace(first) : paths.find([first]) !== undefined;
    return isPart ? [] : [{ line, text: unknownPath(parts, paths, isSeen).message }];
  });
  const [worst] = problems;
  if (worst === undefined) return prepared;
  throw refusal(
    problems.slice(0, 10).map(({ line, text }) => `Line ${line}: ${text}`),
    worst.line,
  );
}

function refusal(problems: readonly string[], line: number): InvalidArgumentError {
  const issues = problems.map((message) => ({ path: "code", expected: "", received: "", message }));
  return new InvalidArgumentError(`The code was not run.\n${problems.join("\n")}`, {
    data: { line, issues },
  });
}

/** The result of the tool: the value as text or JSON, and what the code printed. */
function toResult({ value, hasValue, files, console: printed, calls }: RunOutcome) {
  const isText = typeof value === "string";
  const said = isText ? value : JSON.stringify(value);
  const nothing = `The code returned nothing, after ${calls} calls. Write return before what you want to see.`;
  const shown = hasValue ? (said ?? "") : printed === "" ? nothing : "";
  const log = printed === "" ? "" : `console:\n${printed.trimEnd()}`;
  const consoleLines = linesOf(printed);
  return {
    content: [shown, log].filter((text) => text !== "").join("\n\n"),
    type: isText || !hasValue || log !== "" ? ("text" as const) : ("json" as const),
    ...(files.length > 0 && { attachments: files }),
    metadata: { calls, returned: hasValue, ...(consoleLines > 0 && { consoleLines }) },
  };
}
