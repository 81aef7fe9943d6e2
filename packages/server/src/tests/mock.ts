import {
  type ApprovalPolicy,
  type CallMock,
  type JsonSchemaObject,
  type MockedCall,
  Tool,
  ToolError,
  type ToolInfo,
  toDefinition,
} from "@toolrack/core";
import { originOf } from "../config/index.ts";
import { isRecord } from "../helpers/index.ts";
import { skillToolInfo } from "../skills/index.ts";
import { type Difference, differencesOf, type Problem, show } from "./expectation.ts";
import { fillReferences, type InnerCall, type RecordedTool, type SavedCall } from "./saved-call.ts";

/**
 * `recorded`: inner calls, calls of other servers and HTTP skills are answered from the record; an unknown one runs for
 * real if it only reads. `strict`: an unknown one fails. `off`: everything runs for real.
 */
export type MockMode = "recorded" | "strict" | "off";

export const mockModes: readonly MockMode[] = ["recorded", "strict", "off"];

interface AnswersOptions {
  readonly mode: MockMode;
  readonly secretOf: (name: string) => string;
  /** The canonical name of a tool, which may be recorded under an alias. */
  readonly nameOf: (name: string) => string;
  /** The last answer to a question is given again when the question is repeated. For recordings that are served. */
  readonly isServed?: boolean;
}

interface RecordedAnswer {
  readonly call: InnerCall;
  isUsed: boolean;
}

/** Answers calls from a recording: by the tool's name, the arguments, and how often both came before. */
export class RecordedAnswers implements CallMock {
  /** What was asked and not recorded, or not allowed. Each fails the test, even if the tool goes on without an answer. */
  readonly problems: Problem[] = [];
  readonly approval: ApprovalPolicy;
  readonly #byTool = new Map<string, RecordedAnswer[]>();
  readonly #options: AnswersOptions;

  constructor(test: Pick<SavedCall, "calls" | "approve">, options: AnswersOptions) {
    this.#options = options;
    for (const call of test.calls ?? []) {
      const name = options.nameOf(call.tool);
      const answers = this.#byTool.get(name) ?? [];
      answers.push({ call, isUsed: false });
      this.#byTool.set(name, answers);
    }
    // What is answered from a recording does nothing, so nobody needs to agree to it.
    const isAnswered = (parent: string | undefined) =>
      options.isServed === true || (parent !== undefined && options.mode !== "off");
    this.approval = {
      decide: ({ dangerous, stage, parentCallId }) => {
        if (!dangerous && stage === "before") return "allow";
        if (test.approve === true || (stage === "before" && isAnswered(parentCallId))) return "allow";
        return { decision: "deny", reason: "the test does not say approve: true" };
      },
    };
  }

  /** Recorded answers that nothing asked for. */
  get unused(): InnerCall[] {
    return [...this.#byTool.values()].flat().flatMap(({ call, isUsed }) => (isUsed ? [] : [call]));
  }

  answer({ tool, input, depth }: MockedCall): (() => unknown) | undefined {
    const { mode, isServed } = this.#options;
    const isMeant = isServed === true ? isStandIn(tool) : depth > 0 || reachesOut(tool);
    if (mode === "off" || !isMeant) return undefined;
    const answers = this.#byTool.get(tool.name) ?? [];
    const fitting = answers.filter(({ call }) => mismatches(call, input, tool).length === 0);
    const next = fitting.find(({ isUsed }) => !isUsed) ?? (isServed === true ? fitting.at(-1) : undefined);
    if (next !== undefined) {
      next.isUsed = true;
      return () => this.#give(next.call, tool.name);
    }
    const { readOnly, dangerous } = tool.metadata;
    if (mode === "recorded" && isServed !== true && readOnly === true && dangerous !== true) return undefined;
    throw this.#unknown(tool, input, answers, fitting.length);
  }

  #give({ answer, result, error }: InnerCall, toolName: string): unknown {
    const fill = <Value>(value: Value) => fillReferences(value, this.#options.secretOf);
    if (error !== undefined)
      throw new ToolError(error.code ?? "execution_failed", fill(error.message), { toolName });
    if (result !== undefined) return fill(result);
    const given = fill(answer);
    if (typeof given === "string") return { content: given, type: "text" };
    return { content: JSON.stringify(given), type: "json", structured: given };
  }

  #unknown(
    tool: ToolInfo,
    input: MockedCall["input"],
    answers: readonly RecordedAnswer[],
    times: number,
  ): ToolError {
    const asked = `${tool.name} with ${show(input)}`;
    const why =
      times > 0
        ? `is recorded ${times === 1 ? "once" : `${times} times`}, and was asked for once more`
        : "is not recorded";
    const hint = this.#options.mode === "recorded" ? ", and it may do more than read" : "";
    const message = `The call of ${asked} ${why}${hint}.`;
    const nearest = times > 0 ? undefined : nearestOf(answers, input, tool);
    this.problems.push({ kind: "calls", message, ...(nearest && { differences: nearest }) });
    return new ToolError("execution_failed", message, { toolName: tool.name, input });
  }
}

/** How the arguments differ from those of the recorded call of the tool that is most like it. */
function nearestOf(
  answers: readonly RecordedAnswer[],
  input: MockedCall["input"],
  tool: ToolInfo,
): Difference[] | undefined {
  const all = answers.map(({ call }) => mismatches(call, input, tool));
  return all.sort((one, other) => one.length - other.length)[0];
}

/** How arguments differ from recorded ones. A member that has its default may be left out of the recorded ones. */
function mismatches({ arguments: recorded }: InnerCall, input: unknown, tool: ToolInfo): Difference[] {
  if (recorded === undefined) return [];
  const differences = differencesOf(recorded, input);
  if (differences.every(({ expected }) => expected !== undefined)) return differences;
  const properties = propertiesOf(tool);
  return differences.filter(({ path, expected, actual }) => {
    const property = properties[path.slice(1)];
    const isDefault = isRecord(property) && differencesOf(property.default, actual).length === 0;
    return expected !== undefined || !isDefault;
  });
}

function propertiesOf(tool: ToolInfo): Readonly<Record<string, unknown>> {
  const { properties } = definitionOf(tool)?.inputSchema ?? {};
  return isRecord(properties) ? properties : {};
}

/** Undefined for the few tools whose schemas have no JSON form. */
export function definitionOf(tool: ToolInfo): RecordedTool | undefined {
  try {
    const { description, inputSchema, outputSchema } = toDefinition(tool);
    const { readOnly } = tool.metadata;
    return {
      ...(description && { description }),
      inputSchema,
      ...(outputSchema && { outputSchema }),
      ...(readOnly === true && { readOnly }),
      ...(tool.origin !== undefined && { origin: tool.origin }),
    };
  } catch {
    return undefined;
  }
}

/** How the schemas of a tool differ from the recorded ones. */
export function schemaChanges(recorded: RecordedTool, tool: ToolInfo): Difference[] {
  const now = definitionOf(tool);
  if (now === undefined) return [];
  const schemas = ({ inputSchema, outputSchema }: RecordedTool): Record<string, JsonSchemaObject> => ({
    inputSchema,
    ...(outputSchema && { outputSchema }),
  });
  return differencesOf(schemas(recorded), schemas(now));
}

/** Whether the tool calls another server: a test answers such a call from its record, even where no tool makes it. */
export function reachesOut(tool: ToolInfo): boolean {
  return isStandIn(tool) || originOf(tool) !== undefined || skillToolInfo(tool)?.type === "http";
}

function isStandIn({ metadata }: ToolInfo): boolean {
  return metadata.standIn === true;
}

/**
 * A tool as it was recorded, for a rack that does not have it. When nothing is recorded for a call of it, `bring` makes the
 * rack have the real tool, which is then called; without `bring` the call fails.
 */
export function standInFor(name: string, recorded: RecordedTool, bring?: () => Promise<void>): ToolInfo {
  const { description, inputSchema, outputSchema, readOnly, origin } = recorded;
  return {
    ...Tool.define({
      name,
      description: description ?? "",
      parameters: inputSchema,
      metadata: { ...(readOnly && { readOnly }), calls: [name], outputCheck: "warn", standIn: true },
      async execute(context) {
        await bring?.();
        // Read now, because it shows the rack as it is when it is first read.
        const real = context.registry.get(name);
        if (real !== undefined && !isStandIn(real)) return context.call(name, context.input);
        throw new Error(`${name} is not on the rack, and nothing is recorded for this call of it.`);
      },
    }),
    ...(outputSchema && { outputSchema }),
    ...(origin !== undefined && { origin }),
  };
}
