import type { JsonSchemaObject } from "@toolrack/core";
import { s } from "../http/wire/index.ts";
import type { ModelMessage, ModelTool } from "./model.ts";

const open = { additionalProperties: true };
const functionCall = s.object({ name: s.text(), arguments: s.text() }, open);
/** The schema of a `ModelMessage`. Members that are not named here are passed on unchanged. */
const message: JsonSchemaObject = s.object(
  {
    role: s.choice(["system", "developer", "user", "assistant", "tool", "function"]),
    "content?": {
      type: ["string", "array", "null"],
      items: s.object({ type: s.text(), "text?": s.text() }, open),
    },
    "tool_calls?": s.nullable(
      s.list(
        s.object(
          {
            id: s.text(),
            "function?": functionCall,
            "custom?": s.object({ name: s.text(), input: s.text() }, open),
          },
          { ...open, anyOf: [{ required: ["function"] }, { required: ["custom"] }] },
        ),
      ),
    ),
    "function_call?": s.nullable(functionCall),
    "tool_call_id?": s.nullable(s.text()),
    "name?": s.nullable(s.text()),
  },
  open,
);

const functionChoice: JsonSchemaObject = {
  ...s.object({ name: s.text() }, open),
  type: ["string", "object", "null"],
  description: "The older form of `tool_choice`.",
};

/** Members of a request in either of OpenAI's forms that the rack itself reads. */
export const rackMembers = {
  "n?": s.nullable(
    s.integer({ minimum: 1, maximum: 1, description: "Only 1: tools are run for one answer." }),
  ),
  "toolrack?": s.closed(
    {
      "events?": s.boolean("Tell of the tools that are run; see the guide."),
      "expert?": s.text({ minLength: 1, maxLength: 128, description: "Offer this expert's tools only." }),
    },
    "What only the rack understands; it is not sent to the provider.",
  ),
} as const;

const requestMembers = {
  "model?": s.nullable(
    s.text({ maxLength: 200, description: "As `GET /v1/models` lists it. Default: the config's." }),
  ),
  messages: s.list<ModelMessage>(message, { minItems: 1 }),
  "tools?": s.nullable<readonly ModelTool[]>(
    s.list(s.object({ type: s.text() }, open), {
      maxItems: 1024,
      description: "Tools that the client runs itself, beside those of the rack.",
    }),
  ),
  "functions?": s.nullable(
    s.list(s.object({ name: s.text({ minLength: 1 }) }, open), {
      maxItems: 1024,
      description: "The older form of `tools`: calls come back as `function_call`, one at a time.",
    }),
  ),
  "function_call?": functionChoice,
  "stream?": s.nullable(s.boolean()),
  "stream_options?": s.nullable(s.object({ "include_usage?": s.boolean() }, open)),
  ...rackMembers,
} as const;

/** A request to `/v1/chat/completions`. Members that are not named here go to the provider unchanged. */
export type CompletionRequest = s.Values<typeof requestMembers> & { readonly [key: string]: unknown };

export const completionRequestSchema: s.Schema<CompletionRequest> = s.object(requestMembers, open);
