import { type JsonSchemaObject, Tool, type ToolMetadata } from "@toolrack/core";
import type { FileVersion } from "../file-version.ts";
import type { FilePlace } from "../internal/adapt-internal.ts";
import type { RecognisedFile } from "../recognised.ts";

/** The `schema` of contract 2: a JSON Schema with the tool's name and description in it. */
interface ToolboxSchema extends JsonSchemaObject {
  readonly name?: string;
  readonly description?: string;
  readonly outputSchema?: JsonSchemaObject;
  readonly metadata?: ToolMetadata;
}

/** Contract 2: `schema`, and a default function that takes the request. The file name is an alias. */
export function adaptToolbox(
  exports: Record<string, unknown>,
  place: FilePlace,
  version: FileVersion,
): RecognisedFile | undefined {
  const { default: run } = exports;
  if (typeof run !== "function") return undefined;
  const warnings: string[] = [];
  const schema = isSchema(exports.schema) ? exports.schema : undefined;
  if (schema === undefined) {
    warnings.push(
      "It exports no schema, so the file name is its name and its arguments are not checked. Export one.",
    );
  }
  const name =
    typeof schema?.name === "string" && schema.name.trim() !== "" ? schema.name.trim() : place.stem;
  const { name: _, description, outputSchema, metadata, ...parameters } = schema ?? { type: "object" };

  const info = Tool.define({
    name,
    description: description ?? "",
    parameters,
    ...(name.toLowerCase() === place.stem.toLowerCase() ? {} : { aliases: [place.stem] }),
    ...outputOf(outputSchema),
    metadata: {
      ...(place.folders.length === 0 ? {} : { category: place.folders.join("/") }),
      ...metadata,
      ...(outputSchema === undefined ? {} : { resultSchema: outputSchema, outputCheck: "warn" }),
    },
    execute: (context) =>
      version.run(context, () =>
        run({ method: "tools/call", params: { name, arguments: context.input } }, context),
      ),
  });
  return { contract: "toolbox", tools: [{ ...info, origin: place.origin }], warnings };
}

/**
 * Most of these schemas describe the whole MCP result, `content` and all, and often loosely: they are shown, but
 * not held against the tool. One that describes the data itself is.
 */
function outputOf(schema: JsonSchemaObject | undefined): { outputSchema?: JsonSchemaObject } {
  const { properties } = schema ?? {};
  if (typeof properties !== "object" || properties === null || "content" in properties) return {};
  return { outputSchema: schema! };
}

function isSchema(value: unknown): value is ToolboxSchema {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
