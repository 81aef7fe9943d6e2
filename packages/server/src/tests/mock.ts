import {
  type ApprovalPolicy,
  type CallMock,
  type MockedCall,
  Tool,
  ToolError,
  type ToolInfo,
} from "@toolrack/core";
import { definitionOf } from "@toolrack/core/internal";
import { originOf } from "../config/index.ts";
import { isRecord } from "../helpers/index.ts";
import { skillToolInfo } from "../skills/index.ts";
import { type Difference, differencesOf, normalised, type Problem, show } from "./expectation.ts";
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
  /** What is not compared in arguments either. Pointers are about the result alone. */
  readonly #ignore: readonly string[];

  constructor(test: Pick<SavedCall, "calls" | "approve" | "ignore">, options: AnswersOptions) {
    this.#options = options;
    this.#ignore = test.ignore?.filter((one) => one === "ids" || one === "times") ?? [];
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
    const mismatchesOf = ({ call }: RecordedAnswer) => mismatches(call, input, tool, this.#ignore);
    const fitting = answers.filter((one) => mismatchesOf(one).length === 0);
    const next = fitting.find(({ isUsed }) => !isUsed) ?? (isServed === true ? fitting.at(-1) : undefined);
    if (next !== undefined) {
      next.isUsed = true;
      return () => this.#give(next.call, tool.name);
    }
    const { readOnly, dangerous } = tool.metadata;
    if (mode === "recorded" && isServed !== true && readOnly === true && dangerous !== true) return undefined;
    // How the arguments differ from those of the recorded call of the tool that is most like it.
    const [nearest] = answers.map(mismatchesOf).sort((one, other) => one.length - other.length);
    throw this.#unknown(tool, input, fitting.length, nearest);
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
    times: number,
    nearest: readonly Difference[] | undefined,
  ): ToolError {
    const asked = `${tool.name} with ${show(input)}`;
    const why =
      times > 0
        ? `is recorded ${times === 1 ? "once" : `${times} times`}, and was asked for once more`
        : "is not recorded";
    const hint = this.#options.mode === "recorded" ? ", and it may do more than read" : "";
    const message = `The call of ${asked} ${why}${hint}.`;
    this.problems.push({ kind: "calls", message, ...(nearest?.length && { differences: nearest }) });
    return new ToolError("execution_failed", message, { toolName: tool.name, input });
  }
}

/** How arguments differ from recorded ones. A member that has its default may be left out of the recorded ones. */
function mismatches(
  { arguments: recorded }: InnerCall,
  input: unknown,
  tool: ToolInfo,
  ignore: readonly string[],
): Difference[] {
  if (recorded === undefined) return [];
  const differences = differencesOf(normalised(recorded, ignore), normalised(input, ignore));
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

/** A tool as files of tests hold it; undefined for the few whose schemas have no JSON form. */
export function recordedTool(tool: ToolInfo): RecordedTool | undefined {
  const definition = definitionOf(tool);
  if (definition === undefined) return undefined;
  const { description, inputSchema, outputSchema } = definition;
  return {
    ...(description && { description }),
    inputSchema,
    ...(outputSchema && { outputSchema }),
    ...(tool.metadata.readOnly === true && { readOnly: true }),
    ...(tool.origin !== undefined && { origin: tool.origin }),
  };
}

/** How the schemas of a tool differ from the recorded ones. */
export function schemaChanges(recorded: RecordedTool, tool: ToolInfo): Difference[] {
  const now = definitionOf(tool);
  if (now === undefined) return [];
  const schemas = ({ inputSchema, outputSchema }: RecordedTool) => ({ inputSchema, outputSchema });
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
