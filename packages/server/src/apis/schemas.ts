import type { JsonSchemaObject } from "@toolrack/core";
import { mapSchemas, memberAt, pointerSteps } from "@toolrack/core/internal/schema";
import { isRecord } from "../helpers/index.ts";

type Members = Readonly<Record<string, unknown>>;

/** Who reads a schema: the caller who fills it in, or the one who reads an answer. */
export type Direction = "request" | "response";

/** A schema of the document as a JSON Schema of its own, and the names of the definitions that it needs. */
interface Converted {
  readonly schema: JsonSchemaObject;
  readonly needs: ReadonlySet<string>;
  /** The length of the schema in JSON, without the definitions. */
  readonly length: number;
}

/** Keywords of OpenAPI that JSON Schema does not have. `example` becomes `examples`. */
const foreign = /^(?:xml|externalDocs|example|discriminator|nullable|x-.*)$/;
/** Bytes of the JSON of all schemas of one description. They are stored, and sent to those who list the tools. */
const MOST_BYTES = 64 * 1024 * 1024;
/** References that may follow each other before a schema is reached. */
const LONGEST_CHAIN = 50;

/**
 * Turns the schemas of a document into JSON Schemas that stand alone. What a schema refers to is kept under `$defs`, so
 * that schemas which refer to themselves stay finite. Each definition is converted once for each direction.
 */
export class DocumentSchemas {
  readonly #root: Members;
  readonly #definitions = new Map<string, Converted>();
  /** The name of each definition by the pointer that leads to it, and the other way round. */
  readonly #names = new Map<string, string>();
  readonly #pointers = new Map<string, string>();
  #bytesLeft = MOST_BYTES;

  constructor(root: Members) {
    this.#root = root;
  }

  /** The value, or what it refers to. Throws when a reference leads nowhere. */
  resolve(value: unknown): unknown {
    let found = value;
    for (let step = 0; isRecord(found) && typeof found.$ref === "string"; step++) {
      const target = found.$ref.startsWith("#") ? memberAt(this.#root, pointerSteps(found.$ref)) : undefined;
      if (target === undefined) throw new Error(`it refers to ${found.$ref}, which is not there`);
      if (step === LONGEST_CHAIN) throw new Error(`its reference ${found.$ref} goes round in circles`);
      found = target;
    }
    return found;
  }

  /** The schema with the definitions that it needs. Throws when it is too long, or refers to something that is not there. */
  toJsonSchema(schema: unknown, direction: Direction, longest: number): JsonSchemaObject {
    const { schema: own, needs } = this.#convert(schema, direction);
    return this.withDefinitions(own, needs, direction, longest);
  }

  /** Like `toJsonSchema`, for a part of a larger schema: its definitions are added to `needs`. */
  part(schema: unknown, direction: Direction, needs: Set<string>): JsonSchemaObject {
    const converted = this.#convert(schema, direction);
    for (const name of converted.needs) needs.add(name);
    return converted.schema;
  }

  /** Throws when the schema is longer than `longest` in JSON. Definitions behind that length are not looked at. */
  withDefinitions(
    schema: JsonSchemaObject,
    needs: Iterable<string>,
    direction: Direction,
    longest: number,
  ): JsonSchemaObject {
    const all = new Set<string>(needs);
    let left = longest - JSON.stringify(schema).length;
    // The set grows while it is read.
    for (const name of all) {
      const definition = left < 0 ? undefined : this.#definition(name, direction);
      if (definition === undefined) break;
      left -= name.length + definition.length;
      for (const inner of definition.needs) all.add(inner);
    }
    if (left < 0)
      throw new Error(
        `the schema of its arguments is longer than ${longest / 1024} KiB, too long for a model`,
      );
    this.#bytesLeft -= longest - left;
    if (this.#bytesLeft < 0)
      throw new Error(
        `the schemas of all operations together are longer than ${MOST_BYTES / 1024 / 1024} MiB, and only the first are offered`,
      );
    if (all.size === 0) return schema;
    const definitions = [...all].sort().map((name) => [name, this.#definition(name, direction).schema]);
    return { ...schema, $defs: Object.fromEntries(definitions) };
  }

  #definition(name: string, direction: Direction): Converted {
    const key = `${direction} ${name}`;
    const known = this.#definitions.get(key);
    if (known !== undefined) return known;
    const target = memberAt(this.#root, pointerSteps(this.#pointers.get(name) ?? "#"));
    const converted = this.#convert(target, direction);
    this.#definitions.set(key, converted);
    return converted;
  }

  #convert(given: unknown, direction: Direction): Converted {
    const needs = new Set<string>();
    const convert = (part: unknown): unknown => {
      if (!isRecord(part)) return part;
      const { $ref, example, ...rest } = part;
      const own = Object.fromEntries(Object.entries(rest).filter(([keyword]) => !foreign.test(keyword)));
      if (typeof $ref === "string") {
        this.resolve(part);
        const name = this.#nameOf($ref);
        needs.add(name);
        own.$ref = `#/$defs/${name}`;
      }
      if (example !== undefined && own.examples === undefined) own.examples = [example];
      if (isRecord(own.properties)) this.#dropProperties(own, own.properties, direction);
      return mapSchemas(own, convert);
    };
    const schema = convert(given === undefined ? {} : given);
    // `true` and `false` are schemas too, but a parameter or a body is described by an object.
    const own = isRecord(schema) ? schema : schema === false ? { not: {} } : {};
    return { schema: own, needs, length: JSON.stringify(own).length };
  }

  /** A caller need not send what only the server sets, and is not sent what only a caller gives. */
  #dropProperties(schema: Record<string, unknown>, properties: Members, direction: Direction): void {
    const mark = direction === "request" ? "readOnly" : "writeOnly";
    const isDropped = (property: unknown) => {
      if (!isRecord(property)) return false;
      const target = typeof property.$ref === "string" ? this.resolve(property) : undefined;
      return property[mark] === true || (isRecord(target) && target[mark] === true);
    };
    const dropped = new Set(Object.keys(properties).filter((name) => isDropped(properties[name])));
    if (dropped.size === 0) return;
    schema.properties = Object.fromEntries(Object.entries(properties).filter(([name]) => !dropped.has(name)));
    if (!Array.isArray(schema.required)) return;
    const required = schema.required.filter((name) => !dropped.has(name));
    if (required.length > 0) schema.required = required;
    else delete schema.required;
  }

  /** The last step of the pointer, with a number behind it where two pointers end alike. */
  #nameOf(pointer: string): string {
    const known = this.#names.get(pointer);
    if (known !== undefined) return known;
    const last = String(pointerSteps(pointer).at(-1) ?? "root").replace(/[^A-Za-z0-9_.-]+/g, "_") || "part";
    let name = last;
    for (let number = 2; this.#pointers.has(name); number++) name = `${last}_${number}`;
    this.#names.set(pointer, name);
    this.#pointers.set(name, pointer);
    return name;
  }
}
