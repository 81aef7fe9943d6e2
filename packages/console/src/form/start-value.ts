import { boundsOf, type Child, type FieldNode } from "./field-node.ts";

/**
 * The initial value of an added field or item: the schema's default, or else the smallest value that fits.
 */
export function startValue(node: FieldNode): unknown {
  return made(node, false, 0);
}

/** A value that shows what is expected: the schema's own examples, and texts of the right form. */
export function exampleValue(node: FieldNode): unknown {
  return made(node, true, 0);
}

/** The initial arguments: defaults, values that the schema fixes, and required objects. The person sets the rest. */
export function startArguments(node: FieldNode, depth = 0): Record<string, unknown> {
  if (node.kind !== "object" || depth > DEEPEST) return {};
  const known = node.properties.flatMap(({ key, required, node: child }): (readonly [string, unknown])[] => {
    const shape = child();
    if (shape.default !== undefined && shape.default !== null) return [[key, structuredClone(shape.default)]];
    if (!required || shape.nullable) return [];
    if (shape.kind === "object") return [[key, startArguments(shape, depth + 1)]];
    const isFixed = shape.kind === "choice" && shape.choices.length === 1;
    return isFixed ? [[key, structuredClone(shape.choices[0]!.value)]] : [];
  });
  return Object.fromEntries(known);
}

const DEEPEST = 8;
/** Optional members of an example are filled down to this depth: a schema may hold itself. */
const DEEPEST_OPTIONAL = 3;
const MOST_ITEMS = 100;

function made(node: FieldNode, isExample: boolean, depth: number): unknown {
  if (isExample && node.examples.length > 0) return structuredClone(node.examples[0]);
  if (node.default !== undefined) return structuredClone(node.default);
  // A schema this deep probably requires itself without end, and no value can fit it.
  if (depth > DEEPEST) return null;
  const inner = (child: Child) => made(child(), isExample, depth + 1);
  const { minItems } = node.schema;
  // An example shows an item, unless the list may hold itself.
  const fewest = isExample && depth < DEEPEST_OPTIONAL ? 1 : 0;
  const least = typeof minItems === "number" ? Math.min(Math.max(fewest, minItems), MOST_ITEMS) : fewest;
  switch (node.kind) {
    case "text":
      return isExample ? exampleText(node) : "";
    case "file":
      return "";
    case "number":
      return startNumber(node);
    case "boolean":
      return false;
    case "choice":
      return structuredClone(node.choices[0]?.value ?? null);
    case "choices":
      return node.choices.slice(0, least).map(({ value }) => structuredClone(value));
    case "list":
      return Array.from({ length: least }, () => inner(node.item));
    case "map":
      return fewest === 0 ? {} : { key: inner(node.value) };
    case "tuple":
      return node.items.map(inner);
    case "object": {
      const isWanted = (child: Child) => isExample && depth < DEEPEST_OPTIONAL && !child().deprecated;
      const wanted = node.properties.filter((property) => property.required || isWanted(property.node));
      return Object.fromEntries(wanted.map(({ key, node: child }) => [key, inner(child)]));
    }
    case "union":
      return node.options.length === 0 ? null : inner(node.options[0]!.node);
    case "any":
      return null;
  }
}

/** The number nearest to zero within the bounds, or an approximation if there is none. */
function startNumber({ schema, integer }: Extract<FieldNode, { kind: "number" }>): number {
  const { multipleOf } = schema;
  const { least = Number.NEGATIVE_INFINITY, most = Number.POSITIVE_INFINITY, ...bounds } = boundsOf(schema);
  const step = typeof multipleOf === "number" && multipleOf > 0 ? multipleOf : integer ? 1 : 0;
  const fits = (value: number) =>
    (bounds.isAbove ? value > least : value >= least) && (bounds.isBelow ? value < most : value <= most);
  if (fits(0)) return 0;
  // Zero is out of bounds, so the nearest number is next to one of the bounds.
  const isUp = least >= 0;
  const bound = isUp ? least : most;
  if (step > 0) {
    const near = (isUp ? Math.ceil(bound / step) : Math.floor(bound / step)) * step;
    return fits(near) ? near : near + (isUp ? step : -step);
  }
  if (fits(bound)) return bound;
  const whole = isUp ? Math.floor(bound) + 1 : Math.ceil(bound) - 1;
  return fits(whole) ? whole : (least + most) / 2;
}

const byFormat: Readonly<Record<string, () => string>> = {
  date: () => new Date().toISOString().slice(0, 10),
  "date-time": () => new Date().toISOString(),
  time: () => "12:00:00Z",
  email: () => "name@example.com",
  uri: () => "https://example.com",
  url: () => "https://example.com",
  hostname: () => "example.com",
  ipv4: () => "192.0.2.1",
  ipv6: () => "2001:db8::1",
  uuid: () => "00000000-0000-4000-8000-000000000000",
};

function exampleText({ schema }: FieldNode): string {
  const text = byFormat[String(schema.format)]?.();
  if (text !== undefined) return text;
  const { minLength, maxLength } = schema;
  const least = typeof minLength === "number" ? Math.min(minLength, LONGEST) : 0;
  const most = typeof maxLength === "number" ? maxLength : LONGEST;
  const length = Math.max(least, Math.min(WORD.length, most));
  return WORD.repeat(Math.ceil(length / WORD.length)).slice(0, length);
}

const WORD = "text";
const LONGEST = 10_000;
