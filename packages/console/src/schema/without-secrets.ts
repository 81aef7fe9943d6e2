import type { FieldNode } from "./field-node.ts";
import { optionFor } from "./fit.ts";
import { isRecord } from "./is-record.ts";

/** The value without what its schema says is secret. */
export function withoutSecrets(node: FieldNode, value: unknown, depth = 0): unknown {
  if (value === undefined || depth > DEEPEST) return undefined;
  switch (node.kind) {
    case "text":
      return node.secret ? undefined : value;
    case "union": {
      const option = node.options[optionFor(node, value)];
      return option === undefined ? value : withoutSecrets(option.node(), value, depth + 1);
    }
    case "object": {
      const known = new Map(node.properties.map(({ key, node: child }) => [key, child]));
      return entriesOf(value, (key, part) => {
        const child = known.get(key) ?? node.extra;
        return child === undefined ? part : withoutSecrets(child(), part, depth + 1);
      });
    }
    case "map":
      return entriesOf(value, (_key, part) => withoutSecrets(node.value(), part, depth + 1));
    case "list":
      return itemsOf(value, (part) => withoutSecrets(node.item(), part, depth + 1));
    case "tuple":
      return itemsOf(value, (part, index) => {
        const child = node.items[index] ?? node.rest;
        return child === undefined ? part : withoutSecrets(child(), part, depth + 1);
      });
    default:
      return value;
  }
}

const DEEPEST = 64;

function entriesOf(value: unknown, keep: (key: string, part: unknown) => unknown): unknown {
  if (!isRecord(value)) return value;
  const kept = Object.entries(value).map(([key, part]) => [key, keep(key, part)] as const);
  return Object.fromEntries(kept.filter(([, part]) => part !== undefined));
}

/** A list keeps its places. */
function itemsOf(value: unknown, keep: (part: unknown, index: number) => unknown): unknown {
  return Array.isArray(value) ? value.map((part, index) => keep(part, index) ?? null) : value;
}
