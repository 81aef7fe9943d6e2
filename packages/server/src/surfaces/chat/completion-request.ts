import type { JsonSchemaObject } from "@toolrack/core";
import type { ModelMessage, ModelTool } from "./model/model-message.ts";

/** A request to `/v1/chat/completions`. What is not named here goes to the provider as it is. */
export interface CompletionRequest {
  readonly model?: string | null;
  readonly messages: readonly ModelMessage[];
  readonly tools?: readonly ModelTool[] | null;
  readonly stream?: boolean | null;
  readonly stream_options?: { readonly include_usage?: boolean } | null;
  readonly n?: number | null;
  /** What only the rack understands. */
  readonly response_format?: { readonly type?: unknown } | null;
  readonly toolrack?: { readonly events?: boolean; readonly expert?: string };
  readonly [key: string]: unknown;
}

const toolCall = {
  type: "object",
  properties: {
    id: { type: "string" },
    function: {
      type: "object",
      properties: { name: { type: "string" }, arguments: { type: "string" } },
      required: ["name", "arguments"],
      additionalProperties: true,
    },
  },
  required: ["id", "function"],
  additionalProperties: true,
} as const;

/** Whether the client reads the answer as JSON, so that nothing but the last word of the model may be in it. */
export function wantsJson({ response_format }: Pick<CompletionRequest, "response_format">): boolean {
  const type = response_format?.type;
  return type === "json_object" || type === "json_schema";
}

/** What this form of the request cannot do; undefined for one that is in order. */
export function unsupported({ tools, functions, function_call }: CompletionRequest): string | undefined {
  if (isGiven(functions) || isGiven(function_call)) {
    return "`functions` and `function_call` are the older form of `tools` and `tool_choice`. Send those.";
  }
  const custom = tools?.find(({ type }) => type === "custom");
  if (custom === undefined) return undefined;
  return "Tools of the type `custom` are not handed on. Send a `function` with one parameter that is a string.";
}

function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null;
}

export const completionRequestSchema = {
  type: "object",
  properties: {
    model: {
      type: ["string", "null"],
      maxLength: 200,
      description: "As `GET /v1/models` lists it. Default: the config's.",
    },
    messages: {
      type: "array",
      minItems: 1,
      items: {
        type: "object",
        properties: {
          role: { enum: ["system", "developer", "user", "assistant", "tool", "function"] },
          content: {
            type: ["string", "array", "null"],
            items: {
              type: "object",
              properties: { type: { type: "string" }, text: { type: "string" } },
              required: ["type"],
              additionalProperties: true,
            },
          },
          tool_calls: { type: ["array", "null"], items: toolCall },
          tool_call_id: { type: ["string", "null"] },
          name: { type: ["string", "null"] },
        },
        required: ["role"],
        additionalProperties: true,
      },
    },
    tools: {
      type: ["array", "null"],
      maxItems: 1024,
      description: "Tools that the client runs itself, beside those of the rack.",
      items: {
        type: "object",
        properties: { type: { type: "string" } },
        required: ["type"],
        additionalProperties: true,
      },
    },
    stream: { type: ["boolean", "null"] },
    stream_options: {
      type: ["object", "null"],
      properties: { include_usage: { type: "boolean" } },
      additionalProperties: true,
    },
    n: {
      type: ["integer", "null"],
      minimum: 1,
      maximum: 1,
      description: "Only 1: tools are run for one answer.",
    },
    toolrack: {
      type: "object",
      description: "What only the rack understands; it is not sent to the provider.",
      properties: {
        events: { type: "boolean", description: "Tell of the tools that are run; see the guide." },
        expert: {
          type: "string",
          minLength: 1,
          maxLength: 128,
          description: "Offer this expert's tools only.",
        },
      },
      additionalProperties: false,
    },
  },
  required: ["messages"],
  additionalProperties: true,
} as const satisfies JsonSchemaObject;
