import { compileSchema } from "../schema/compile-schema.ts";
import type { JsonSchemaObject } from "../schema/types.ts";
import type { ToolInfo } from "../tool/info.ts";
import type { ToolMetadata } from "../tool/metadata.ts";

/** A tool as a provider is told of it, before any provider's limits are applied. Plain JSON but for `metadata`. */
export interface ToolDefinition {
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly inputSchema: JsonSchemaObject;
  readonly outputSchema?: JsonSchemaObject;
  readonly metadata: ToolMetadata;
}

/** Throws `SchemaError` when a schema has no JSON Schema form. */
export function toDefinition(info: ToolInfo): ToolDefinition {
  return {
    name: info.name,
    ...(info.title !== undefined && { title: info.title }),
    ...(info.description !== undefined && { description: info.description }),
    inputSchema: compileSchema(info.parameters).jsonSchema(),
    ...(info.outputSchema !== undefined && { outputSchema: compileSchema(info.outputSchema).jsonSchema() }),
    metadata: info.metadata,
  };
}
