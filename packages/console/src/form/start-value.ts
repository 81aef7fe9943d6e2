import type { FieldNode } from "./field-node.ts";

/** The initial value when a person adds one: the smallest that fits. */
export function startValue(node: FieldNode, depth = 0): unknown {
  if ("default" in node && node.default !== undefined) return structuredClone(node.default);
  // Only a schema that no value can fit requires itself without end.
  if (depth > DEEPEST) return null;
  switch (node.kind) {
    case "text":
    case "file":
      return "";
    case "number":
      return startNumber(node);
    case "boolean":
      return false;
    case "choice":
      return node.choices.length === 0 ? null : structuredClone(node.choices[0]!.value);
    case "choices":
      return node.choices.slice(0, leastOf(node)).map(({ value }) => structuredClone(value));
    case "list":
      return Array.from({ length: leastOf(node) }, () => startValue(node.item(), depth + 1));
    case "map":
      return {};
    case "tuple":
      return node.items.map((item) => startValue(item(), depth + 1));
    case "object":
      return startObject(node, depth);
    case "union":
      return node.options.length === 0 ? null : startValue(node.options[0]!.node(), depth + 1);
    case "any":
      return null;
  }
}

/** The initial arguments: only values that the schema fixes. The person sets everything else. */
export function startArguments(node: FieldNode): Record<string, unknown> {
  if (node.kind !== "object") return {};
  const fixed = node.properties.flatMap(({ key, required, node: child }) => {
    const shape = required ? child() : undefined;
    return shape?.kind === "choice" && shape.choices.length === 1 && !shape.nullable
      ? [[key, structuredClone(shape.choices[0]!.value)] as const]
      : [];
  });
  return Object.fromEntries(fixed);
}

const DEEPEST = 8;
const MOST_ITEMS = 100;

function leastOf({ schema }: FieldNode): number {
  return typeof schema.minItems === "number" ? Math.min(Math.max(0, schema.minItems), MOST_ITEMS) : 0;
}

function startObject(node: Extract<FieldNode, { kind: "object" }>, depth: number): Record<string, unknown> {
  const required = node.properties.filter((property) => property.required);
  return Object.fromEntries(required.map(({ key, node: child }) => [key, startValue(child(), depth + 1)]));
}

export function exampleValue(node: FieldNode, depth = 0): unknown {
  if (node.examples.length > 0) return structuredClone(node.examples[0]);
  if ("default" in node && node.default !== undefined) return startValue(node);
  if (depth > DEEPEST) return startValue(node, depth);
  if (node.kind === "text") return exampleText(node);
  if (node.kind === "list")
    return Array.from({ length: leastOf(node) }, () => exampleValue(node.item(), depth + 1));
  if (node.kind === "tuple") return node.items.map((item) => exampleValue(item(), depth + 1));
  if (node.kind === "union" && node.options.length > 0)
    return exampleValue(node.options[0]!.node(), depth + 1);
  if (node.kind !== "object") return startValue(node, depth);
  const wanted = node.properties.filter(
    ({ required, node: child }) => required || child().examples.length > 0,
  );
  return Object.fromEntries(wanted.map(({ key, node: child }) => [key, exampleValue(child(), depth + 1)]));
}

/** The number nearest to zero within the bounds, or an approximation if there is none. */
export function startNumber({ schema, integer }: Extract<FieldNode, { kind: "number" }>): number {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf } = schema;
  const least = largest(minimum, exclusiveMinimum);
  const most = smallest(maximum, exclusiveMaximum);
  // Before draft 6, `exclusiveMinimum: true` made `minimum` exclusive.
  const isAbove = exclusiveMinimum === true || exclusiveMinimum === least;
  const isBelow = exclusiveMaximum === true || exclusiveMaximum === most;
  const step = typeof multipleOf === "number" && multipleOf > 0 ? multipleOf : integer ? 1 : 0;
  const fits = (value: number) =>
    (isAbove ? value > least : value >= least) && (isBelow ? value < most : value <= most);
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

function largest(...bounds: readonly unknown[]): number {
  return Math.max(Number.NEGATIVE_INFINITY, ...bounds.filter((bound) => typeof bound === "number"));
}

function smallest(...bounds: readonly unknown[]): number {
  return Math.min(Number.POSITIVE_INFINITY, ...bounds.filter((bound) => typeof bound === "number"));
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

export function exampleText({ schema }: FieldNode): string {
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
