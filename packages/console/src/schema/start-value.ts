import { exampleText } from "./example-text.ts";
import type { FieldNode } from "./field-node.ts";
import { startNumber } from "./start-number.ts";

/** What a value begins as when a person adds one: the least that fits. */
export function startValue(node: FieldNode, depth = 0): unknown {
  if ("default" in node && node.default !== undefined) return structuredClone(node.default);
  // Only a schema that no value can ever fit asks for something inside itself without end.
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

/** What a form begins with: only what the schema fixes anyhow. Everything else is for the person to say. */
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

/** An example of the arguments, for who wants to see what a tool takes. */
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
