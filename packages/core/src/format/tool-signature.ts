import {
  isRecord,
  type JsonSchema,
  type JsonSchemaObject,
  listOf,
  propertiesOf,
  requiredOf,
  resolveReference,
  schemaFrom,
  schemasIn,
  typesOf,
} from "../schema/visit.ts";
import type { ToolDefinition } from "./tools.ts";

/** How much of a schema a signature shows. */
interface Detail {
  /** How many levels of objects inside the arguments are written out. */
  readonly depth: number;
  /** How many values of an enumeration are listed; of more, the first ones. 0: only their type. */
  readonly values: number;
  /** How many members an object shows, those that are required first. */
  readonly members: number;
  readonly optional: number;
  /** How many characters the first sentence of the description may have. */
  readonly sentence: number;
}

/** From the whole signature to one that only just says what the tool is. */
const details: readonly Detail[] = [
  { depth: 3, values: 8, members: 40, optional: 40, sentence: 160 },
  { depth: 1, values: 4, members: 20, optional: 10, sentence: 120 },
  { depth: 0, values: 0, members: 10, optional: 4, sentence: 80 },
  { depth: 0, values: 0, members: 4, optional: 0, sentence: 50 },
];

/**
 * The tool as one line of TypeScript, with the first sentence of its description: `add(args: { a: number; b?: number })
 * // Adds numbers.` Returns it in several lengths, the whole one first. What a shorter one leaves out is a `…`. All
 * texts of the tool's author are on this one line, whatever they contain.
 */
export function toSignatures({
  name,
  description = "",
  inputSchema,
}: Pick<ToolDefinition, "name" | "description" | "inputSchema">): readonly string[] {
  return details.map((detail) => {
    const args = new TypeWriter(inputSchema, detail).write(inputSchema, -1);
    const sentence = firstSentence(description, detail.sentence);
    const call = args === "object" || args === "unknown" ? `${name}()` : `${name}(args: ${args})`;
    return sentence === "" ? call : `${call} // ${sentence}`;
  });
}

/** Only the beginning of a description is searched for the end of its first sentence. */
const LONGEST_TEXT = 2_000;

/** The first sentence of a text in one line, cut to `longest` characters. */
export function firstSentence(text: string, longest: number): string {
  const [paragraph = ""] = text
    .slice(0, LONGEST_TEXT)
    .trim()
    .split(/\n\s*\n/, 1);
  const line = paragraph.replaceAll(/\s+/g, " ");
  // `e.g. this` ends no sentence, so a small letter must not follow.
  const [sentence] = /^.*?(?:[.!?](?= [^a-z]|$)|[。！？])/.exec(line) ?? [line];
  return cut(sentence, longest);
}

function cut(text: string, longest: number): string {
  return text.length <= longest ? text : `${text.slice(0, longest - 1).trimEnd()}…`;
}

/** A key or value that is longer is not shown: a server may write anything there. */
const LONGEST_VALUE = 40;
/** How many schemas of one tool are read. A schema may contain itself several times. */
const MOST_SCHEMAS = 300;
const MOST_ALTERNATIVES = 6;

/** Writes the types of one tool's arguments. */
class TypeWriter {
  readonly #root: JsonSchemaObject;
  readonly #detail: Detail;
  #left = MOST_SCHEMAS;

  constructor(root: JsonSchemaObject, detail: Detail) {
    this.#root = root;
    this.#detail = detail;
  }

  /** `depth`: how many objects this value is in; the arguments themselves are at -1. */
  write(schema: JsonSchema, depth: number): string {
    if (typeof schema === "boolean" || this.#left-- <= 0) return "unknown";
    if (typeof schema.$ref === "string")
      return this.write(resolveReference(this.#root, schema.$ref) ?? true, depth);
    const values = this.#values("const" in schema ? [schema.const] : listOf(schema.enum));
    if (values !== undefined) return values;
    const parts = schemasIn(schema.allOf);
    if (parts.length > 0) return this.write(joined(schema, parts, this.#root), depth);
    const alternatives = [...schemasIn(schema.anyOf), ...schemasIn(schema.oneOf)];
    // Beside properties, alternatives mostly say which of the properties go together.
    if (alternatives.length > 0 && !isRecord(schema.properties))
      return union(alternatives.slice(0, MOST_ALTERNATIVES).map((one) => this.write(one, depth)));
    const types = (typesOf(schema) ?? []).map((type) => {
      if (type === "array") return this.#list(schema, depth);
      if (type === "object") return this.#object(schema, depth);
      return type === "integer" ? "number" : type;
    });
    return types.length === 0 ? "unknown" : union(types);
  }

  #values(given: readonly unknown[]): string | undefined {
    const { values } = this.#detail;
    const shown = given.slice(0, values).map((value) => JSON.stringify(value) ?? "null");
    if (shown.length === 0 || shown.some(({ length }) => length > LONGEST_VALUE)) return undefined;
    return union([...shown, ...(shown.length < given.length ? ["…"] : [])]);
  }

  #list({ items }: JsonSchemaObject, depth: number): string {
    const item = this.write(schemaFrom(items), depth);
    return item.includes(" | ") ? `(${item})[]` : `${item}[]`;
  }

  #object(schema: JsonSchemaObject, depth: number): string {
    const { depth: deepest, members: most, optional: mostOptional } = this.#detail;
    if (depth >= deepest) return "object";
    const members = Object.entries(propertiesOf(schema));
    const { additionalProperties: others } = schema;
    if (members.length === 0)
      return isRecord(others) ? `Record<string, ${this.write(others, depth + 1)}>` : "object";
    const names = new Set(requiredOf(schema));
    const required = members.filter(([name]) => names.has(name));
    const optional = members.filter(([name]) => !names.has(name)).slice(0, mostOptional);
    const kept = [...required, ...optional].slice(0, most);
    const texts = kept.map(([name, type]) => {
      const key = /^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name);
      return `${cut(key, LONGEST_VALUE)}${names.has(name) ? "" : "?"}: ${this.write(type, depth + 1)}`;
    });
    return `{ ${[...texts, ...(kept.length < members.length ? ["…"] : [])].join("; ")} }`;
  }
}

function union(types: readonly string[]): string {
  return [...new Set(types)].join(" | ");
}

/** One schema with the members of all parts of an `allOf`. */
function joined(
  { allOf: _, ...schema }: JsonSchemaObject,
  parts: readonly JsonSchema[],
  root: JsonSchemaObject,
): JsonSchemaObject {
  const all = [schema, ...parts].flatMap((part) => {
    const found = isRecord(part) && typeof part.$ref === "string" ? resolveReference(root, part.$ref) : part;
    return isRecord(found) ? [found] : [];
  });
  const properties = Object.assign({}, ...all.map(propertiesOf));
  const merged = Object.assign({}, ...all.toReversed(), { required: all.flatMap(requiredOf) });
  return Object.keys(properties).length === 0 ? merged : { ...merged, properties };
}
