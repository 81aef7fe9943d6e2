import type { JsonSchemaObject } from "@toolrack/core";
import type { ModelMessage, ModelTool } from "./model/model-message.ts";

/** A request to `/v1/chat/completions`. What is not named here goes to the provider as it is. */
export interface CompletionRequest {
  readonly model?: string;
  readonly messages: readonly ModelMessage[];
  readonly tools?: readonly ModelTool[] | null;
  readonly stream?: boolean | null;
  readonly stream_options?: { readonly include_usage?: boolean } | null;
  readonly n?: number | null;
  /** What only the rack understands. */
  readonly toolrack?: { readonly events?: boolean; readonly expert?: string };
  readonly [key: string]: unknown;
}

export const completionRequestSchema = {
  type: "object",
  properties: {
    model: {
      type: "string",
      maxLength: 200,
      description: "As `GET /v1/models` lists it. Default: the config's.",
    },
    messages: {
      type: "array",
      minItems: 1,
      items: {
        type: "object",
        properties: { role: { enum: ["system", "developer", "user", "assistant", "tool", "function"] } },
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
