type Json = Record<string, unknown>;

/** Deeper than any schema a person writes; a lazy schema that makes a new one each time never ends. */
const maximumDepth = 100;

/**
 * Gives recursive schemas a place in `$defs`. A schema that is met again while it is still being converted
 * becomes a reference; all others are written out where they stand.
 */
export class SchemaDefinitions {
  readonly #active = new Map<object, string | undefined>();
  readonly #root: object;
  readonly #definitions: Json = {};
  #count = 0;

  constructor(root: object) {
    this.#root = root;
  }

  /** Converts one schema by `convert`, or refers to the conversion that is under way. */
  convert(schema: object, convert: () => Json): Json {
    if (this.#active.has(schema)) return { $ref: this.#reference(schema) };
    if (this.#active.size >= maximumDepth) return {};
    this.#active.set(schema, undefined);
    const json = convert();
    const name = this.#active.get(schema);
    this.#active.delete(schema);
    if (name === undefined) return json;
    this.#definitions[name] = json;
    return { $ref: `#/$defs/${name}` };
  }

  /** The root's JSON with the definitions it needs. */
  finish(root: Json): Json {
    return this.#count === 0 ? root : { ...root, $defs: this.#definitions };
  }

  #reference(schema: object): string {
    if (schema === this.#root) return "#";
    let name = this.#active.get(schema);
    if (name === undefined) {
      name = `schema${++this.#count}`;
      this.#active.set(schema, name);
    }
    return `#/$defs/${name}`;
  }
}
