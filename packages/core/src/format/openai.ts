import type { JsonSchema, JsonSchemaObject } from "../schema/types.ts";
import type { ToolInfo } from "../tool/info.ts";
import { clipDescription } from "./clip-description.ts";
import type { ToolDefinition } from "./definition.ts";
import type { TakeNote } from "./format-note.ts";
import { type FormattedTool, type FormattedTools, formatTools } from "./format-tools.ts";
import { isRecord } from "./json-value.ts";
import { mapSubschemas } from "./map-subschemas.ts";
import { toModernSchema } from "./modern-schema.ts";
import { toStrictSchema } from "./openai-strict.ts";
import { prepareSchema } from "./prepare-schema.ts";
import { typesOf } from "./schema-types.ts";
import { fromStrictArguments } from "./strict-arguments.ts";

/** A member of `tools` in Chat Completions. */
export interface OpenAITool {
  readonly type: "function";
  readonly function: {
    readonly name: string;
    readonly description?: string;
    readonly parameters: JsonSchemaObject;
    readonly strict?: boolean;
  };
}

/** A member of `tools` in Responses. */
export interface OpenAIResponsesTool {
  readonly type: "function";
  readonly name: string;
  readonly description?: string;
  readonly parameters: JsonSchemaObject;
  readonly strict: boolean;
}

export interface OpenAIOptions {
  /** Ask for strict mode. A tool that cannot be strict without changing what it accepts is sent without it. */
  readonly strict?: boolean;
}

const names = { accepts: /^[a-zA-Z0-9_-]{1,64}$/, maxLength: 64 };
const maxDescription = 1024;

/** The `tools` of a Chat Completions request. */
export function toOpenAITools(
  tools: Iterable<ToolInfo | ToolDefinition>,
  options: OpenAIOptions = {},
): FormattedTools<OpenAITool> {
  return formatTools(tools, {
    names,
    format: (definition, name, note) => {
      const { tool, restore } = toFunction(definition, name, options, note);
      const { strict, ...plain } = tool;
      return {
        tool: { type: "function", function: options.strict ? { ...plain, strict } : plain },
        ...(restore && { restore }),
      };
    },
  });
}

/** The `tools` of a Responses request. There, `strict` is on unless it is said to be off. */
export function toOpenAIResponsesTools(
  tools: Iterable<ToolInfo | ToolDefinition>,
  options: OpenAIOptions = {},
): FormattedTools<OpenAIResponsesTool> {
  return formatTools(tools, {
    names,
    format: (definition, name, note) => {
      const { tool, restore } = toFunction(definition, name, options, note);
      return { tool: { type: "function", ...tool }, ...(restore && { restore }) };
    },
  });
}

type FunctionTool = Omit<OpenAIResponsesTool, "type">;

function toFunction(
  definition: ToolDefinition,
  name: string,
  options: OpenAIOptions,
  note: TakeNote,
): FormattedTool<FunctionTool> {
  const description = clipDescription(definition.description, maxDescription, note);
  const head = { name, ...(description !== undefined && { description }) };
  const strict = options.strict ? strictParameters(definition, note) : undefined;
  if (strict !== undefined) {
    return {
      tool: { ...head, parameters: strict, strict: true },
      restore: (args) => fromStrictArguments(args, definition),
    };
  }
  const prepared = prepareSchema(definition.inputSchema, note);
  return { tool: { ...head, parameters: withItems(prepared, "", note), strict: false } };
}

function strictParameters(definition: ToolDefinition, note: TakeNote): JsonSchemaObject | undefined {
  // Notes of the attempt are kept only when it succeeds: otherwise none of it is sent.
  const taken: Parameters<TakeNote>[] = [];
  const take: TakeNote = (...entry) => taken.push(entry);
  const alternative = shapedAlternative(toModernSchema(definition.inputSchema, () => {}));
  if (alternative !== undefined) {
    note(
      "",
      alternative,
      "not_strict",
      "Its branches are different objects, which the root of a strict schema cannot be.",
    );
    return undefined;
  }
  const outcome = toStrictSchema(prepareSchema(definition.inputSchema, take), take);
  if (!outcome.ok) {
    note(
      outcome.path,
      outcome.keyword,
      "not_strict",
      `Strict mode would change what the tool accepts: ${outcome.reason}.`,
    );
    return undefined;
  }
  for (const entry of taken) note(...entry);
  return outcome.schema;
}

/** The keyword by which a root chooses between objects of different shape, not just between required names. */
function shapedAlternative(root: JsonSchemaObject): string | undefined {
  return ["anyOf", "oneOf"].find((keyword) => {
    const branches = root[keyword];
    return Array.isArray(branches) && branches.some((branch) => !isRequirement(branch));
  });
}

function isRequirement(branch: unknown): boolean {
  const harmless = ["required", "title", "description", "type"];
  return isRecord(branch) && Object.keys(branch).every((keyword) => harmless.includes(keyword));
}

/** OpenAI refuses arrays that do not say what they hold. */
function withItems(schema: JsonSchemaObject, path: string, note: TakeNote): JsonSchemaObject {
  const visit = (node: JsonSchema, at: string): JsonSchema => {
    if (!isRecord(node)) return node;
    const copy = mapSubschemas(node, at, visit);
    if (copy.items !== undefined || !typesOf(copy)?.includes("array") || copy.$ref !== undefined) return copy;
    note(at, "items", "rewritten", "Missing, so sent as a schema that takes anything.");
    return { ...copy, items: {} };
  };
  const whole = visit(schema, path);
  return isRecord(whole) ? whole : schema;
}
