import type { ParametersSchema } from "../../api/skill-types.ts";
import { isRecord } from "../../schema/is-record.ts";

/**
 * The schema of the arguments that a tool's `usage` describes, for the form that tries it: a JSON Schema, `{parameters}`
 * with settings beside it, `{properties}`, or a list of parameters. What says nothing takes any object. The server reads
 * the same forms, and has the last word.
 */
export function parametersOf(usage: unknown): ParametersSchema {
  if (Array.isArray(usage)) return fromList(usage);
  if (!isRecord(usage)) return { type: "object" };
  if (usage.type === "function" && isRecord(usage.function)) return parametersOf(usage.function);
  if (isRecord(usage.parameters) || Array.isArray(usage.parameters)) return parametersOf(usage.parameters);
  return isRecord(usage.properties) ? withPlainProperties(usage) : { type: "object" };
}

function fromList(list: readonly unknown[]): ParametersSchema {
  const named = list.filter(
    (entry) => isRecord(entry) && typeof entry.name === "string" && entry.name !== "",
  );
  // Only those that were found to have a name are left.
  const entries = named.map((entry) => entry as Record<string, unknown> & { name: string });
  return withPlainProperties({
    type: "object",
    properties: Object.fromEntries(entries.map(({ name, ...rest }) => [name, rest])),
  });
}

/** Without what is the rack's own: where a parameter goes, its other name, and a `required` of a single one. */
function withPlainProperties(schema: Record<string, unknown>): ParametersSchema {
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  const properties = Object.entries(schema.properties ?? {}).map(([name, property]) => {
    if (!isRecord(property)) return [name, property];
    const { in: _in, as: _as, required: own, ...rest } = property;
    if (own === true) required.add(name);
    return [name, Array.isArray(own) ? { ...rest, required: own } : rest];
  });
  return { type: "object", ...schema, properties: Object.fromEntries(properties), required: [...required] };
}
