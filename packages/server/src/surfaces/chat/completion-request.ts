import type { JsonSchemaObject } from "@toolrack/core";
import { functionWithoutCall } from "./completion-functions.ts";
import type { ModelEndpoint } from "./model/endpoint.ts";
import type { ModelMessage, ModelTool } from "./model/model-message.ts";

/** A request to `/v1/chat/completions`. What is not named here goes to the provider as it is. */
export interface CompletionRequest {
  readonly model?: string | null;
  readonly messages: readonly ModelMessage[];
  readonly tools?: readonly ModelTool[] | null;
  readonly stream?: boolean | null;
  readonly stream_options?: { readonly include_usage?: boolean } | null;
  readonly n?: number | null;
  readonly response_format?: { readonly type?: unknown } | null;
  /** What only the rack understands. */
  readonly toolrack?: { readonly events?: boolean; readonly expert?: string };
  readonly [key: string]: unknown;
}

const functionCall = {
  type: "object",
  properties: { name: { type: "string" }, arguments: { type: "string" } },
  required: ["name", "arguments"],
  additionalProperties: true,
} as const;

const toolCall = {
  type: "object",
  properties: {
    id: { type: "string" },
    function: functionCall,
    custom: {
      type: "object",
      properties: { name: { type: "string" }, input: { type: "string" } },
      required: ["name", "input"],
      additionalProperties: true,
    },
  },
  required: ["id"],
  anyOf: [{ required: ["function"] }, { required: ["custom"] }],
  additionalProperties: true,
} as const;

/** Whether the client reads the answer as JSON, so that nothing but the last word of the model may be in it. */
export function wantsJson({ response_format }: Pick<CompletionRequest, "response_format">): boolean {
  const type = response_format?.type;
  return type === "json_object" || type === "json_schema";
}

/** What a request asks for that cannot be done; undefined for one that is in order. */
export function unsupported(
  { messages, tools, functions }: CompletionRequest,
  { toolCalls }: Pick<ModelEndpoint, "toolCalls">,
): string | undefined {
  if (tools?.length && Array.isArray(functions) && functions.length > 0) {
    return "`functions` is the older form of `tools`: send one of them, and best `tools`.";
  }
  const orphan = functionWithoutCall(messages);
  if (orphan >= 0) {
    return `messages[${orphan}] has the role \`function\`, but the message before it has no \`function_call\` that it could answer.`;
  }
  if (toolCalls !== "tags") return undefined;
  // Elsewhere the provider knows what it takes.
  const strange = tools?.find(({ type }) => type !== "function" && type !== "custom")?.type;
  if (strange === undefined) return undefined;
  return `This model is told of tools by text, which is known how for tools of the types \`function\` and \`custom\`, but not for \`${strange}\`.`;
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
          function_call: { ...functionCall, type: ["object", "null"] },
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
    functions: {
      type: ["array", "null"],
      maxItems: 1024,
      description: "The older form of `tools`: calls come back as `function_call`, one at a time.",
      items: {
        type: "object",
        properties: { name: { type: "string", minLength: 1 } },
        required: ["name"],
        additionalProperties: true,
      },
    },
    function_call: {
      type: ["string", "object", "null"],
      description: "The older form of `tool_choice`.",
      properties: { name: { type: "string" } },
      required: ["name"],
      additionalProperties: true,
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
