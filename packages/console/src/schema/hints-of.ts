import type { FieldNode } from "./field-node.ts";

/** What is asked of a value beside its kind: the text `form.hints.NAME` and what stands in it. */
export interface Hint {
  readonly name: string;
  readonly values: Readonly<Record<string, string | number>>;
}

/** The bounds of a field, so that nobody has to find them by being refused. */
export function hintsOf({ kind, schema }: FieldNode): Hint[] {
  switch (kind) {
    case "number":
      return numberHints(schema);
    case "text":
      return [
        ...range(schema.minLength, schema.maxLength, "Length"),
        ...(formats.has(String(schema.format)) ? [hint("format", { format: String(schema.format) })] : []),
        ...(typeof schema.pattern === "string" ? [hint("pattern", { pattern: schema.pattern })] : []),
      ];
    case "list":
    case "tuple":
      return range(schema.minItems, schema.maxItems, "Items");
    case "map":
      return range(schema.minProperties, schema.maxProperties, "Items");
    default:
      return [];
  }
}

/** Those that say something to people; the others are for programs, or show in how the field looks. */
const formats = new Set(["date-time", "time", "email", "uri", "url", "uuid", "hostname", "ipv4", "ipv6"]);

function numberHints(schema: FieldNode["schema"]): Hint[] {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf } = schema;
  const isOld = (exclusive: unknown) => exclusive === true;
  const above = typeof exclusiveMinimum === "number" ? exclusiveMinimum : isOld(exclusiveMinimum) && minimum;
  const below = typeof exclusiveMaximum === "number" ? exclusiveMaximum : isOld(exclusiveMaximum) && maximum;
  return [
    ...(typeof above === "number" ? [hint("above", { bound: above })] : []),
    ...(typeof below === "number" ? [hint("below", { bound: below })] : []),
    ...range(
      isOld(exclusiveMinimum) ? undefined : minimum,
      isOld(exclusiveMaximum) ? undefined : maximum,
      "",
    ),
    ...(typeof multipleOf === "number" ? [hint("multiple", { of: multipleOf })] : []),
  ];
}

function range(least: unknown, most: unknown, what: "" | "Length" | "Items"): Hint[] {
  const hasLeast = typeof least === "number" && (what === "" || least > 0);
  const hasMost = typeof most === "number" && most < 1e12;
  if (hasLeast && hasMost) return [hint(`between${what}`, { least, most })];
  if (hasLeast) return [hint(`least${what}`, { least })];
  return hasMost ? [hint(`most${what}`, { most })] : [];
}

function hint(name: string, values: Hint["values"]): Hint {
  return { name, values };
}
