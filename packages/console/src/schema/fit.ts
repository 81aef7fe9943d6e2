import type { FieldNode } from "./field-node.ts";
import { isRecord } from "./is-record.ts";
import { choiceIs } from "./normalise.ts";

/**
 * Whether a field of this kind can show the value without losing any of it. Looks no deeper than the field itself:
 * what is inside shows itself. A value that does not fit is edited as JSON.
 */
export function fits(node: FieldNode, value: unknown, depth = 0): boolean {
  if (value === undefined) return true;
  if (value === null) return node.nullable || node.kind === "any";
  switch (node.kind) {
    case "text":
    case "file":
      return typeof value === "string";
    case "number":
      return typeof value === "number" && Number.isFinite(value);
    case "boolean":
      return typeof value === "boolean";
    case "choice":
      return node.choices.some((choice) => choiceIs(choice, value));
    case "choices":
      return (
        Array.isArray(value) &&
        value.every((part) => node.choices.some((choice) => choiceIs(choice, part))) &&
        new Set(value.map((part) => JSON.stringify(part))).size === value.length
      );
    case "list":
      return Array.isArray(value);
    case "tuple":
      return Array.isArray(value) && (node.rest !== undefined || value.length <= node.items.length);
    case "object":
    case "map":
      return isRecord(value);
    case "union":
      // A union may be one of its own branches; that deep inside nothing is decided any more.
      return depth < DEEPEST && node.options.some((option) => fits(option.node(), value, depth + 1));
    case "any":
      return true;
  }
}

/** The option that a value belongs to: of those that fit, the one that knows most of it. -1 when none does. */
export function optionFor(node: Extract<FieldNode, { kind: "union" }>, value: unknown): number {
  let best = -1;
  let bestScore = Number.NEGATIVE_INFINITY;
  for (const [index, option] of node.options.entries()) {
    const score = scoreOf(option.node(), value, 0);
    if (score > bestScore) [best, bestScore] = [index, score];
  }
  return best;
}

const NO_FIT = Number.NEGATIVE_INFINITY;
const DEEPEST = 6;

/** How well a value fits, parts included. */
function scoreOf(node: FieldNode, value: unknown, depth: number): number {
  if (!fits(node, value)) return NO_FIT;
  if (depth > DEEPEST || value === null || value === undefined) return 0;
  if (node.kind === "any") return -1; // Anything else that fits says more.
  if (node.kind === "choice" || node.kind === "choices") return 2;
  if (node.kind === "number") return node.integer === Number.isInteger(value) ? 1 : 0;
  if (node.kind === "object" && isRecord(value)) {
    const known = new Map(node.properties.map((property) => [property.key, property]));
    let score = 0;
    for (const property of node.properties)
      if (property.required && !Object.hasOwn(value, property.key)) score -= 1;
    for (const [key, part] of Object.entries(value)) {
      const child = known.get(key)?.node ?? node.extra;
      if (child === undefined) {
        score -= 1;
        continue;
      }
      const inner = scoreOf(child(), part, depth + 1);
      // A wrong discriminator rules the option out; a value that is only half written does not.
      if (inner === NO_FIT && child().kind === "choice") return NO_FIT;
      score += inner === NO_FIT ? -1 : 1 + inner;
    }
    return score;
  }
  if (node.kind === "list" && Array.isArray(value) && value.length > 0) {
    const inner = scoreOf(node.item(), value[0], depth + 1);
    return inner === NO_FIT ? -1 : 1 + inner;
  }
  if (node.kind === "union")
    return Math.max(NO_FIT, ...node.options.map((option) => scoreOf(option.node(), value, depth + 1)));
  return 1;
}
