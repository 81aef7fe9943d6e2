import {
  isRecord,
  type JsonSchema,
  type JsonSchemaObject,
  listOf,
  pointerSteps,
  propertiesOf,
  requiredOf,
  resolveReference,
  schemaFrom,
  schemasIn,
  typesOf,
} from "../schema/visit.ts";
import type { ToolDefinition } from "./tools.ts";

/** What a declaration is made from. `toDefinition` gives it for a tool of a registry. */
type DeclaredTool = Pick<ToolDefinition, "name" | "description" | "inputSchema" | "outputSchema">;

/**
 * A tool as a method of TypeScript, with its texts as comments: `add(args: { a: number; b?: number }): Promise<unknown>`.
 * Types that contain themselves are named, and follow the method.
 */
export function signatureOf(tool: DeclaredTool): string {
  const named = new NamedTypes(new Set());
  const method = methodOf(tool, named, "");
  return [`${method};`, ...named.declarations()].join("\n");
}

/**
 * A module that declares `Rack`, an interface with a method for each tool, for `createClient<Rack>`. The output of a tool
 * without an output schema is `unknown`.
 */
export function declarationsOf(tools: readonly DeclaredTool[]): string {
  const steps = declarationSteps(tools);
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

/** The same, tool by tool: to declare tens of thousands takes seconds. */
export function* declarationSteps(tools: Iterable<DeclaredTool>): Generator<void, string> {
  const named = new NamedTypes(new Set(["Rack"]));
  const chunks: string[] = [];
  let methods: string[] = [];
  for (const tool of tools) {
    // Joined some at a time: megabytes of small texts at the end would take as long as thousands of tools.
    if (methods.push(`${methodOf(tool, named, "  ")};\n`) === JOINED_AT_ONCE) {
      chunks.push(methods.join(""));
      methods = [];
    }
    yield;
  }
  const body = [...chunks, ...methods].join("");
  return [`export interface Rack {\n${body}}\n`, ...named.declarations()].join("\n");
}

const JOINED_AT_ONCE = 500;

function methodOf(tool: DeclaredTool, named: NamedTypes, indent: string): string {
  const { name, description = "", inputSchema, outputSchema } = tool;
  const input = new DeclarationWriter(inputSchema, `${name}_input`, named).arguments(indent);
  const output =
    outputSchema === undefined
      ? "unknown"
      : new DeclarationWriter(outputSchema, `${name}_output`, named).write(outputSchema, indent).text;
  return `${comment([description], indent)}${indent}${keyOf(name)}(${input}): Promise<${output}>`;
}

/** A type as it is written. `isCompound`: it needs brackets before `[]` and `&`. */
interface TypeText {
  readonly text: string;
  readonly isCompound?: boolean;
}

const unknown: TypeText = { text: "unknown" };
const never: TypeText = { text: "never" };
/** An object of which nothing is known. */
const anyObject: TypeText = { text: "{ [key: string]: unknown }" };
const emptyObject: TypeText = { text: "{}" };

/** How many schemas of one tool are written out. A schema may contain itself in many ways; what is left is `unknown`. */
const MOST_SCHEMAS = 20_000;
const DEEPEST = 100;

/** Writes the types of the schemas of one document. */
class DeclarationWriter {
  readonly #root: JsonSchemaObject;
  /** Put before the names of all types of this document. */
  readonly #prefix: string;
  readonly #named: NamedTypes;
  #left = MOST_SCHEMAS;

  constructor(root: JsonSchemaObject, prefix: string, named: NamedTypes) {
    this.#root = root;
    this.#prefix = prefix;
    this.#named = named;
  }

  /** The parameter of a method. A tool that takes nothing has none. */
  arguments(indent: string): string {
    const { text, isCompound } = this.write(this.#root, indent);
    if ([emptyObject, unknown, anyObject].some((nothing) => nothing.text === text)) return "";
    // Only an object without members that must be given can be left out.
    const isOptional = requiredOf(this.#root).length === 0 && !isCompound;
    return `args${isOptional ? "?" : ""}: ${text}`;
  }

  /**
   * `followed`: the references that lead to this schema without an object or a list in between. TypeScript has no type
   * that is itself, so those are not written again.
   */
  write(schema: JsonSchema, indent: string, followed: readonly string[] = []): TypeText {
    if (schema === false) return never;
    if (schema === true || this.#left-- <= 0 || indent.length > DEEPEST) return unknown;
    const { $ref, allOf, anyOf, oneOf } = schema;
    const own = this.#ownType(schema, indent);
    const parts = [own, ...schemasIn(allOf).map((part) => this.write(part, indent, followed))];
    if (typeof $ref === "string" && !followed.includes($ref)) {
      const target = resolveReference(this.#root, $ref);
      if (target !== undefined) parts.push(this.write(target, indent, [...followed, $ref]));
    }
    for (const list of [schemasIn(anyOf), schemasIn(oneOf)])
      if (list.length > 0) parts.push(union(list.map((one) => this.write(one, indent, followed))));
    return intersection(parts);
  }

  /** A schema inside an object or a list, where a reference may be a name. */
  #inner(schema: JsonSchema, indent: string): TypeText {
    if (!isRecord(schema) || typeof schema.$ref !== "string") return this.write(schema, indent);
    const { $ref, ...others } = schema;
    const target = resolveReference(this.#root, $ref);
    if (target === undefined) return this.write(others, indent);
    const name = this.#named.nameOf(target, `${this.#prefix}_${pointerSteps($ref).at(-1) ?? ""}`, () =>
      this.write(target, "", [$ref]),
    );
    return intersection([{ text: name }, this.#ownType(others, indent)]);
  }

  /** The type by the keywords of the schema itself. */
  #ownType(schema: JsonSchemaObject, indent: string): TypeText {
    const values = "const" in schema ? [schema.const] : listOf(schema.enum);
    if (values.length > 0) return union(values.map((value) => ({ text: JSON.stringify(value) ?? "null" })));
    const types = typesOf(schema) ?? [];
    if (types.length === 0) return unknown;
    return union(
      types.map((type) => {
        if (type === "array") return this.#list(schema, indent);
        if (type === "object") return this.#object(schema, indent);
        return { text: type === "integer" ? "number" : type };
      }),
    );
  }

  #list(schema: JsonSchemaObject, indent: string): TypeText {
    const { prefixItems, items, additionalItems } = schema;
    // Until 2020-12, `items` could be a list.
    const first = schemasIn(prefixItems ?? (Array.isArray(items) ? items : []));
    const others = this.#inner(schemaFrom(Array.isArray(items) ? additionalItems : items), indent);
    if (first.length === 0) return { text: `${bracketed(others)}[]` };
    const least = typeof schema.minItems === "number" ? schema.minItems : 0;
    const members = first.map((one, at) => bracketed(this.#inner(one, indent)) + (at < least ? "" : "?"));
    const rest = others === never ? [] : [`...${bracketed(others)}[]`];
    return { text: `[${[...members, ...rest].join(", ")}]` };
  }

  #object(schema: JsonSchemaObject, indent: string): TypeText {
    const inner = `${indent}  `;
    const required = new Set(requiredOf(schema));
    const properties = Object.entries(propertiesOf(schema));
    const members = properties.map(([name, member]) => {
      const mark = required.has(name) ? "" : "?";
      return `${docsOf(member, inner)}${inner}${keyOf(name)}${mark}: ${this.#inner(member, inner).text};\n`;
    });
    const named = new Set(properties.map(([name]) => name));
    for (const name of required) if (!named.has(name)) members.push(`${inner}${keyOf(name)}: unknown;\n`);
    const others = this.#others(schema, inner, members.length > 0);
    if (members.length === 0) return others === "" ? emptyObject : { text: `{ ${others} }` };
    return { text: `{\n${members.join("")}${others === "" ? "" : `${inner}${others};\n`}${indent}}` };
  }

  /** What keys without a name of their own may hold. Beside named ones, TypeScript wants one type for all. */
  #others(schema: JsonSchemaObject, indent: string, hasMembers: boolean): string {
    const { additionalProperties, patternProperties, properties } = schema;
    const patterns = isRecord(patternProperties) ? Object.values(patternProperties).map(schemaFrom) : [];
    const isMap = isRecord(additionalProperties) || patterns.length > 0;
    if (!isMap) {
      const isOpen = additionalProperties === true || (properties === undefined && !hasMembers);
      return isOpen && additionalProperties !== false ? "[key: string]: unknown" : "";
    }
    if (hasMembers) return "[key: string]: unknown";
    const all = isRecord(additionalProperties) ? [additionalProperties, ...patterns] : patterns;
    return `[key: string]: ${union(all.map((one) => this.#inner(one, indent))).text}`;
  }
}

/** The types that have names, over all tools of a module. */
class NamedTypes {
  readonly #taken: Set<string>;
  readonly #names = new Map<JsonSchema, string>();
  readonly #texts: string[] = [];

  constructor(taken: Set<string>) {
    this.#taken = taken;
  }

  /** Declares the type of a schema, unless it is declared already. `wanted` becomes a name that no other type has. */
  nameOf(schema: JsonSchema, wanted: string, write: () => TypeText): string {
    const known = this.#names.get(schema);
    if (known !== undefined) return known;
    const words = wanted.split(/[^A-Za-z0-9]+/).filter((word) => word !== "");
    const joined = words.map((word) => word[0]!.toUpperCase() + word.slice(1)).join("");
    const base = /^[A-Z]/.test(joined) ? joined : `Type${joined}`;
    let name = base;
    for (let count = 2; this.#taken.has(name); count++) name = `${base}${count}`;
    this.#taken.add(name);
    this.#names.set(schema, name);
    const at = this.#texts.push("") - 1;
    this.#texts[at] = `${docsOf(schema, "")}type ${name} = ${write().text};\n`;
    return name;
  }

  declarations(): readonly string[] {
    return this.#texts;
  }
}

/** All parts in one type. A part that says nothing is left out. */
function intersection(parts: readonly TypeText[]): TypeText {
  const telling = distinct(parts).filter(({ text }) => text !== unknown.text);
  const closer = telling.filter(({ text }) => text !== anyObject.text && text !== emptyObject.text);
  const [first = telling[0] ?? unknown, ...others] = closer;
  if (others.length === 0) return first;
  return { text: [first, ...others].map(bracketed).join(" & "), isCompound: true };
}

function union(types: readonly TypeText[]): TypeText {
  const all = distinct(types);
  if (all.some(({ text }) => text === unknown.text)) return unknown;
  const [first = never, ...others] = all.filter(({ text }) => text !== never.text);
  if (others.length === 0) return first;
  return { text: [first, ...others].map(({ text }) => text).join(" | "), isCompound: true };
}

function distinct(types: readonly TypeText[]): TypeText[] {
  return [...new Map(types.map((type) => [type.text, type])).values()];
}

function bracketed({ text, isCompound }: TypeText): string {
  return isCompound ? `(${text})` : text;
}

function keyOf(name: string): string {
  return /^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name);
}

/** The description and the default of a schema as a comment; empty when it has neither. */
function docsOf(schema: JsonSchema, indent: string): string {
  if (!isRecord(schema)) return "";
  const { description, default: usual, deprecated } = schema;
  return comment(
    [
      typeof description === "string" ? description : "",
      usual === undefined ? "" : `@default ${JSON.stringify(usual)}`,
      deprecated === true ? "@deprecated" : "",
    ],
    indent,
  );
}

function comment(texts: readonly string[], indent: string): string {
  const lines = texts
    .filter((text) => text.trim() !== "")
    // Whatever a text contains, it stays inside the comment.
    .flatMap((text) =>
      text
        .trim()
        .replaceAll("*/", "*\\/")
        .split(/[\r\n\u2028\u2029]+/),
    );
  if (lines.length === 0) return "";
  if (lines.length === 1) return `${indent}/** ${lines[0]} */\n`;
  return `${indent}/**\n${lines.map((line) => `${indent} * ${line.trimEnd()}\n`).join("")}${indent} */\n`;
}
