import { isRecord, type JsonSchemaObject } from "../schema/visit.ts";
import type { ToolResult } from "../tool/result.ts";
import type { ToolInfo } from "../tool/types.ts";
import { prepareSchema } from "./flatten.ts";
import { toGeminiSchema } from "./gemini-schema.ts";
import { renameProperties } from "./references.ts";
import {
  callIdOr,
  type FormattedTools,
  formatTools,
  isMadeUpCallId,
  modelText,
  type ToolCallRequest,
  type ToolDefinition,
} from "./tools.ts";

/** A member of `functionDeclarations`. */
interface GeminiFunctionDeclaration {
  readonly name: string;
  readonly description: string;
  /** A subset of OpenAPI's schema. Absent when the tool takes no arguments. */
  readonly parameters?: JsonSchemaObject;
  /** JSON Schema, in place of `parameters`. */
  readonly parametersJsonSchema?: JsonSchemaObject;
}

interface GeminiOptions {
  /** `parametersJsonSchema` loses less, but only newer models and endpoints take it. */
  readonly schemaField?: "parameters" | "parametersJsonSchema";
}

const names = { accepts: /^[a-zA-Z_][a-zA-Z0-9_.-]{0,63}$/, maxLength: 64 };
const propertyNames = /^[a-zA-Z_][a-zA-Z0-9_]{0,63}$/;

/** The `functionDeclarations` of one Gemini tool. */
export function toGeminiTools(
  tools: Iterable<ToolInfo | ToolDefinition>,
  options: GeminiOptions = {},
): FormattedTools<GeminiFunctionDeclaration> {
  return formatTools(tools, {
    names,
    format: (definition, name, note) => {
      // Gemini requires a description.
      const head = { name, description: definition.description || definition.title || definition.name };
      const prepared = prepareSchema(definition.inputSchema, note);
      const { schema, restore } = renameProperties(prepared, propertyNames, note);
      if (options.schemaField === "parametersJsonSchema") {
        return { tool: { ...head, parametersJsonSchema: schema }, ...(restore && { restore }) };
      }
      const parameters = toGeminiSchema(schema, note);
      // An object without properties is refused at the root.
      const tool = parameters.properties === undefined ? head : { ...head, parameters };
      return { tool, ...(restore && { restore }) };
    },
  });
}

/** The calls among the parts of a model's content. Never throws. */
export function parseGeminiFunctionCalls(parts: unknown): ToolCallRequest[] {
  const list = isRecord(parts) ? parts.parts : parts;
  if (!Array.isArray(list)) return [];
  return list.flatMap((part, position) => {
    const call = isRecord(part) ? (part.functionCall ?? part.function_call) : undefined;
    if (!isRecord(call)) return [];
    const name = typeof call.name === "string" ? call.name : "";
    // Gemini leaves `args` out when there are none.
    return [{ id: callIdOr(call.id, position), name, arguments: call.args ?? {} }];
  });
}

interface GeminiFunctionResponsePart {
  readonly functionResponse: {
    readonly id?: string;
    readonly name: string;
    readonly response: { readonly output: unknown } | { readonly error: unknown };
  };
}

/** The part that answers a call. `call.name` is the name the model used. */
export function toGeminiFunctionResponse(
  call: Pick<ToolCallRequest, "id" | "name">,
  result: ToolResult,
): GeminiFunctionResponsePart {
  const text = modelText(result, result.attachments);
  return {
    functionResponse: {
      ...(!isMadeUpCallId(call.id) && { id: call.id }),
      name: call.name,
      response: result.type === "error" ? { error: text } : { output: text },
    },
  };
}
