import type { ParametersSchema, SkillToolType } from "../../api/skill-types.ts";

/** The form of a list of parameters, which is the shortest way to say what a tool takes. */
export function parameterListSchema(type: SkillToolType): ParametersSchema {
  const places = { in: { type: "string", enum: ["query", "path", "header", "body"] } };
  return {
    type: "array",
    items: {
      type: "object",
      properties: {
        name: { type: "string" },
        type: {
          type: "string",
          enum: ["string", "integer", "number", "boolean", "array", "object"],
          default: "string",
        },
        description: { type: "string" },
        required: { type: "boolean" },
        ...(type === "http" ? places : {}),
      },
      required: ["name", "type"],
      additionalProperties: true,
    },
  };
}
