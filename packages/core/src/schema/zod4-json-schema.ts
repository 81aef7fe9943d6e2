import { convertZod4 } from "./convert-zod4.ts";
import { finishLibrarySchema } from "./finish-library-schema.ts";
import { SchemaError } from "./schema-error.ts";
import type { JsonSchemaObject } from "./types.ts";
import type { Zod4Schema } from "./zod-types.ts";

/**
 * The JSON Schema of what a Zod 4 schema takes in, made by the schema itself where it can. Schemas of zod/mini
 * and of Zod before 4.2 cannot; those are read by `convertZod4`.
 */
export function zod4JsonSchema(schema: Zod4Schema): JsonSchemaObject {
  try {
    return finishLibrarySchema(madeByZod(schema) ?? convertZod4(schema));
  } catch (error) {
    if (SchemaError.is(error)) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    throw new SchemaError(
      `The Zod schema has no JSON Schema: ${reason}. Describe the part it names in another way.`,
      {
        cause: error,
      },
    );
  }
}

function madeByZod(schema: Zod4Schema): Record<string, unknown> | undefined {
  try {
    const converter = schema["~standard"].jsonSchema;
    if (converter !== undefined) return converter.input({ target: "draft-2020-12", libraryOptions });
    return schema.toJSONSchema?.({ io: "input", target: "draft-2020-12", ...libraryOptions });
  } catch {
    // For instance a classic object with a field of zod/mini, which Zod itself cannot convert.
    return undefined;
  }
}

const libraryOptions = {
  unrepresentable: "any",
  /** The JSON forms that `convertRefused` takes; a model has to be told them. */
  override({ zodSchema, jsonSchema }: { zodSchema: Zod4Schema; jsonSchema: Record<string, unknown> }): void {
    const type = zodSchema._zod.def.type;
    if (type === "date") Object.assign(jsonSchema, { type: "string", format: "date-time" });
    if (type === "bigint") jsonSchema.type = "integer";
    if (type === "set" || type === "map") jsonSchema.type = "array";
  },
};
