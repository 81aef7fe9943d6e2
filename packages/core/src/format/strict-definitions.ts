import type { JsonSchema, JsonSchemaObject } from "../schema/types.ts";
import { isRecord } from "./json-value.ts";
import { mapSubschemas } from "./map-subschemas.ts";
import { resolveReference } from "./resolve-reference.ts";

interface Definition {
  readonly name: string;
  readonly path: string;
  readonly target: JsonSchema;
}

/** The `$defs` of a rewritten schema: those that are referred to, wherever their originals stood. */
export class StrictDefinitions {
  readonly #root: JsonSchemaObject;
  readonly #names = new Map<string, string>();
  readonly #uses = new Map<string, number>();
  readonly #recursive = new Map<string, boolean>();
  readonly #targets = new Map<string, readonly string[]>();

  constructor(root: JsonSchemaObject) {
    this.#root = root;
  }

  /** The `$ref` to write for a `$ref` of the original. */
  refer(reference: string): string {
    if (reference === "#" || reference === "#/") return "#";
    this.#uses.set(reference, (this.#uses.get(reference) ?? 0) + 1);
    return `#/$defs/${this.#nameOf(reference)}`;
  }

  /** Takes back a `refer` whose answer was not written. */
  forget(reference: string): void {
    this.#uses.set(reference, (this.#uses.get(reference) ?? 1) - 1);
  }

  /** Each definition in use, once. Definitions that come into use while it is read follow. */
  *drain(): Generator<Definition> {
    const done = new Set<string>();
    for (;;) {
      const next = [...this.#uses].find(([reference, uses]) => uses > 0 && !done.has(reference));
      if (next === undefined) return;
      const [reference] = next;
      done.add(reference);
      const target = resolveReference(this.#root, reference);
      if (target === undefined) continue;
      yield { name: this.#nameOf(reference), path: reference.slice(1), target };
    }
  }

  isRecursive(reference: string): boolean {
    let known = this.#recursive.get(reference);
    if (known === undefined) {
      known = this.#reaches(reference, reference, new Set());
      this.#recursive.set(reference, known);
    }
    return known;
  }

  #reaches(from: string, goal: string, seen: Set<string>): boolean {
    for (const next of this.#referencesIn(from)) {
      if (next === goal) return true;
      if (seen.has(next)) continue;
      seen.add(next);
      if (this.#reaches(next, goal, seen)) return true;
    }
    return false;
  }

  #referencesIn(reference: string): readonly string[] {
    const known = this.#targets.get(reference);
    if (known !== undefined) return known;
    const found = new Set<string>();
    const visit = (schema: JsonSchema): JsonSchema => {
      if (!isRecord(schema)) return schema;
      if (typeof schema.$ref === "string") found.add(schema.$ref);
      mapSubschemas(schema, "", visit);
      return schema;
    };
    const target = resolveReference(this.#root, reference);
    if (target !== undefined) visit(target);
    const list = [...found];
    this.#targets.set(reference, list);
    return list;
  }

  #nameOf(reference: string): string {
    const known = this.#names.get(reference);
    if (known !== undefined) return known;
    const last = reference.split("/").at(-1) ?? "";
    const stem = last.replace(/[^A-Za-z0-9_-]+/g, "_").replace(/^_+|_+$/g, "") || "schema";
    const taken = new Set(this.#names.values());
    let name = stem;
    for (let next = 2; taken.has(name); next++) name = `${stem}_${next}`;
    this.#names.set(reference, name);
    return name;
  }
}
