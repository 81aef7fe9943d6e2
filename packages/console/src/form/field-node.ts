import { isRecord, sameJson } from "../text/index.ts";

/** A JSON Schema in which `$ref` and `allOf` have been replaced by what they stand for. */
export type Keywords = Readonly<Record<string, unknown>>;

/** A schema in the form from which fields are drawn. Children are made on demand, because schemas recurse. */
export type FieldNode = FieldFacts & FieldShape;

export interface FieldFacts {
  readonly title?: string;
  readonly description?: string;
  readonly nullable: boolean;
  /** Present only when the schema has a `default`. */
  readonly default?: unknown;
  readonly examples: readonly unknown[];
  readonly deprecated: boolean;
  readonly schema: Keywords;
}

export type Child = () => FieldNode;

export interface Choice {
  readonly value: unknown;
  readonly label: string;
}

export interface Property {
  readonly key: string;
  readonly required: boolean;
  readonly node: Child;
}

export type FieldShape =
  | { readonly kind: "text"; readonly multiline: boolean; readonly format?: string; readonly secret: boolean }
  | { readonly kind: "file"; readonly as: "base64" | "data-url" }
  | { readonly kind: "number"; readonly integer: boolean }
  | { readonly kind: "boolean" }
  | { readonly kind: "choice"; readonly choices: readonly Choice[] }
  | { readonly kind: "choices"; readonly choices: readonly Choice[] }
  | { readonly kind: "object"; readonly properties: readonly Property[]; readonly extra: Child | undefined }
  | { readonly kind: "map"; readonly value: Child }
  | { readonly kind: "list"; readonly item: Child; readonly maxItems?: number }
  | { readonly kind: "tuple"; readonly items: readonly Child[]; readonly rest: Child | undefined }
  | { readonly kind: "union"; readonly options: readonly UnionOption[] }
  | { readonly kind: "any" };

export interface UnionOption {
  readonly label: string;
  readonly node: Child;
}

/** Whether this kind of field can show the value, without looking at nested fields. Other values are edited as JSON. */
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
      // A union may contain itself, so the depth is limited.
      return depth < DEEPEST_FIT && node.options.some((option) => fits(option.node(), value, depth + 1));
    case "any":
      return true;
  }
}

export function choiceIs(choice: Choice, value: unknown): boolean {
  return sameJson(choice.value, value);
}

/** The index of the option that describes the value best; -1 when none fits. */
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
const DEEPEST_FIT = 6;

function scoreOf(node: FieldNode, value: unknown, depth: number): number {
  if (!fits(node, value)) return NO_FIT;
  if (depth > DEEPEST_FIT || value === null || value === undefined) return 0;
  if (node.kind === "any") return -1; // Any other option that fits is more specific.
  if (node.kind === "choice" || node.kind === "choices") return 2;
  if (node.kind === "number") return node.integer === Number.isInteger(value) ? 1 : 0;
  if (node.kind === "object" && isRecord(value)) {
    const missing = node.properties.filter(({ key, required }) => required && !Object.hasOwn(value, key));
    let score = -missing.length;
    for (const [key, part] of Object.entries(value)) {
      const child = childAt(node, key)?.();
      const inner = child === undefined ? NO_FIT : scoreOf(child, part, depth + 1);
      // A wrong discriminator rules the option out. Other wrong members, perhaps half written, do not.
      if (inner === NO_FIT && child?.kind === "choice") return NO_FIT;
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

/** A constraint on a value: the text `form.hints.NAME` and its parameters. */
export interface Hint {
  readonly name: string;
  readonly values: Readonly<Record<string, string | number>>;
}

/** The constraints of a field, shown before the server refuses a value. */
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

/** Formats that the form names to people. The others matter only to programs, or the control shows them. */
const formats = new Set(["time", "email", "uri", "url", "uuid", "hostname", "ipv4", "ipv6"]);

function numberHints(schema: Keywords): Hint[] {
  const { least, most, isAbove, isBelow } = boundsOf(schema);
  return [
    ...(isAbove ? [hint("above", { bound: least! })] : []),
    ...(isBelow ? [hint("below", { bound: most! })] : []),
    ...range(isAbove ? undefined : least, isBelow ? undefined : most, ""),
    ...(typeof schema.multipleOf === "number" ? [hint("multiple", { of: schema.multipleOf })] : []),
  ];
}

/** The bounds of a number, as any draft writes them: before draft 6, `exclusiveMinimum: true` made `minimum` exclusive. */
export function boundsOf({ minimum, maximum, exclusiveMinimum, exclusiveMaximum }: Keywords) {
  const numbers = (...bounds: readonly unknown[]) => bounds.filter((bound) => typeof bound === "number");
  const [least] = numbers(minimum, exclusiveMinimum).sort((left, right) => right - left);
  const [most] = numbers(maximum, exclusiveMaximum).sort((left, right) => left - right);
  return {
    least,
    most,
    isAbove: least !== undefined && (exclusiveMinimum === true || exclusiveMinimum === least),
    isBelow: most !== undefined && (exclusiveMaximum === true || exclusiveMaximum === most),
  };
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

export function withoutSecrets(node: FieldNode, value: unknown, depth = 0): unknown {
  if (value === undefined || depth > DEEPEST_VALUE) return undefined;
  if (node.kind === "text") return node.secret ? undefined : value;
  if (node.kind === "union") {
    const option = node.options[optionFor(node, value)];
    return option === undefined ? value : withoutSecrets(option.node(), value, depth + 1);
  }
  const kept = (part: unknown, key: string | number) => {
    const child = childAt(node, key);
    return child === undefined ? part : withoutSecrets(child(), part, depth + 1);
  };
  // A secret in a list becomes null, so that the other items keep their index.
  if (Array.isArray(value)) return value.map((part, index) => kept(part, index) ?? null);
  if (!isRecord(value)) return value;
  const entries = Object.entries(value).map(([key, part]) => [key, kept(part, key)] as const);
  return Object.fromEntries(entries.filter(([, part]) => part !== undefined));
}

const DEEPEST_VALUE = 64;

/** The field of a member of an object or map, or of an item of a list or tuple. */
function childAt(node: FieldNode, key: string | number): Child | undefined {
  switch (node.kind) {
    case "object":
      return node.properties.find((property) => property.key === key)?.node ?? node.extra;
    case "map":
      return node.value;
    case "list":
      return node.item;
    case "tuple":
      return node.items[Number(key)] ?? node.rest;
    default:
      return undefined;
  }
}

const identifier = /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u;

/** Appends a step to a path, written as in the server's issues: `items[0].name`, `headers["x-id"]`. */
export function pathStep(path: string, step: string | number): string {
  if (typeof step === "number") return `${path}[${step}]`;
  if (!identifier.test(step)) return `${path}[${JSON.stringify(step)}]`;
  return path === "" ? step : `${path}.${step}`;
}
