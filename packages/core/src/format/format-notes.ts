import { isRecord } from "../schema/visit.ts";

/**
 * What became of a part that a provider does not take.
 * - `described`: said in the description instead
 * - `rewritten`: said in another way, with the same meaning or a wider one
 * - `dropped`: not sent
 * - `shortened`: cut to the provider's limit
 * - `not_strict`: the tool is sent without strict mode
 * - `left_out`: the tool is not sent at all
 */
type FormatAction = "described" | "rewritten" | "dropped" | "shortened" | "not_strict" | "left_out";

/**
 * One difference between a tool and the definition that a provider is sent. The rack still validates by the
 * original schema.
 */
export interface FormatNote {
  /** The tool's name on the rack. */
  readonly tool: string;
  /** JSON pointer into the tool's input schema; empty for its root and for the tool itself. */
  readonly path: string;
  /** The schema keyword, or `name`, `description`, `schema` for the tool itself. */
  readonly keyword: string;
  readonly action: FormatAction;
  readonly message: string;
}

/** Records a change that was made to a schema for a provider; `formatTools` adds the name of the tool. */
export type TakeNote = (path: string, keyword: string, action: FormatAction, message: string) => void;

/** Cuts the description at a word to the provider's limit. */
export function clipDescription(
  description: string | undefined,
  limit: number,
  note: TakeNote,
): string | undefined {
  if (description === undefined || description.length <= limit) return description;
  note("", "description", "shortened", `${description.length} characters; the provider takes ${limit}.`);
  const head = description.slice(0, limit - 1).replace(/[\uD800-\uDBFF]$/, "");
  const word = head.search(/\s\S*$/);
  return `${word > limit / 2 ? head.slice(0, word) : head}…`;
}

/** In characters. A remark about a schema keyword that is longer is left out of the description. */
const maxLength = 300;

const phrases: Readonly<Record<string, (value: unknown) => string | undefined>> = {
  minimum: (value) => `minimum ${json(value)}`,
  maximum: (value) => `maximum ${json(value)}`,
  exclusiveMinimum: (value) => `more than ${json(value)}`,
  exclusiveMaximum: (value) => `less than ${json(value)}`,
  multipleOf: (value) => `multiple of ${json(value)}`,
  minLength: (value) => `at least ${count(value, "character")}`,
  maxLength: (value) => `at most ${count(value, "character")}`,
  minItems: (value) => `at least ${count(value, "item")}`,
  maxItems: (value) => `at most ${count(value, "item")}`,
  minProperties: (value) => `at least ${count(value, "property", "properties")}`,
  maxProperties: (value) => `at most ${count(value, "property", "properties")}`,
  uniqueItems: (value) => (value === true ? "no item twice" : undefined),
  pattern: (value) => `pattern: ${String(value)}`,
  format: (value) => `format: ${String(value)}`,
  contentEncoding: (value) => `encoding: ${String(value)}`,
  contentMediaType: (value) => `media type: ${String(value)}`,
  default: (value) => `default: ${json(value)}`,
  const: (value) => `always ${json(value)}`,
  enum: (value) => `one of: ${list(value)}`,
  examples: (value) => `for example: ${list(value)}`,
  required: (value) => `required: ${Array.isArray(value) ? value.join(", ") : json(value)}`,
  additionalProperties: (value) =>
    value === true || (isRecord(value) && Object.keys(value).length === 0)
      ? "any further properties are allowed"
      : `every further property: ${json(value)}`,
  patternProperties: (value) => `properties by pattern of their name: ${json(value)}`,
  propertyNames: (value) => `property names: ${json(value)}`,
  dependentRequired: (value) =>
    isRecord(value)
      ? Object.entries(value)
          .map(([key, needs]) => `${key} needs ${Array.isArray(needs) ? needs.join(", ") : json(needs)}`)
          .join("; ")
      : undefined,
  contains: (value) => `at least one item: ${json(value)}`,
  allOf: (value) => `must also match: ${json(value)}`,
  not: (value) => `must not match: ${json(value)}`,
  if: (value) => `if the value matches: ${json(value)}`,
  // biome-ignore lint/suspicious/noThenProperty: it is a keyword of JSON Schema; nothing awaits this table.
  then: (value) => `then it must match: ${json(value)}`,
  else: (value) => `otherwise it must match: ${json(value)}`,
};

/** Describes the constraint for a model; undefined when that would be too long. */
export function describeConstraint(keyword: string, value: unknown): string | undefined {
  const phrase = phrases[keyword];
  const text = phrase === undefined ? `${keyword}: ${json(value)}` : phrase(value);
  return text === undefined || text.length > maxLength ? undefined : text;
}

/** The description followed by remarks in brackets. */
export function withRemarks(description: unknown, remarks: readonly string[]): string | undefined {
  const parts = remarks.map((remark) => `(${remark})`);
  if (typeof description === "string" && description !== "") parts.unshift(description);
  return parts.length === 0 ? undefined : parts.join(" ");
}

function json(value: unknown): string {
  return JSON.stringify(value) ?? "nothing";
}

function list(value: unknown): string {
  return Array.isArray(value) ? value.map(json).join(", ") : json(value);
}

function count(value: unknown, singular: string, plural = `${singular}s`): string {
  return `${json(value)} ${value === 1 ? singular : plural}`;
}
