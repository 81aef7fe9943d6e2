import { withoutPrototypeKeys } from "./copy-plain.ts";
import { describeFailure } from "./describe-failure.ts";
import { issuePath } from "./issue-path.ts";
import { isPromise } from "./library-validator.ts";
import { maximumIssues, mismatch, unknownKey } from "./schema-issue.ts";
import type {
  CompiledSchema,
  JsonSchemaObject,
  SchemaIssue,
  SchemaOutcome,
  ValidateOptions,
} from "./types.ts";

/** A plain object of schemas, one per argument: `{ city: z.string() }`. */
export class ShapeValidator implements CompiledSchema {
  readonly kind = "shape";
  readonly #fields: ReadonlyMap<string, CompiledSchema>;
  #json: JsonSchemaObject | undefined;

  constructor(fields: ReadonlyMap<string, CompiledSchema>) {
    this.#fields = fields;
  }

  jsonSchema(): JsonSchemaObject {
    this.#json ??= toJsonSchema(this.#fields);
    return this.#json;
  }

  validate(value: unknown, options?: ValidateOptions): SchemaOutcome | Promise<SchemaOutcome> {
    let clean: unknown;
    try {
      clean = withoutPrototypeKeys(value);
    } catch (error) {
      return { ok: false, issues: [describeFailure(error)] };
    }
    if (typeof clean !== "object" || clean === null || Array.isArray(clean)) {
      return { ok: false, issues: [mismatch([], "object", value)] };
    }
    const object = clean as Record<string, unknown>; // Checked just above.
    const strict = options?.strict === true;
    const outcomes: (SchemaOutcome | Promise<SchemaOutcome>)[] = [];
    let isAsync = false;
    for (const [name, field] of this.#fields) {
      const outcome = field.validate(Object.hasOwn(object, name) ? object[name] : undefined, options);
      isAsync ||= isPromise(outcome);
      outcomes.push(outcome);
    }
    if (isAsync) return Promise.all(outcomes).then((settled) => this.#finish(settled, object, strict));
    return this.#finish(outcomes as SchemaOutcome[], object, strict); // None is a promise.
  }

  #finish(
    outcomes: readonly SchemaOutcome[],
    object: Record<string, unknown>,
    strict: boolean,
  ): SchemaOutcome {
    const value: Record<string, unknown> = {};
    const dropped: string[] = [];
    const issues: SchemaIssue[] = [];
    for (const key in object) {
      if (this.#fields.has(key)) continue;
      if (strict) issues.push(unknownKey([], key, object[key], this.#fields.keys()));
      else dropped.push(key);
    }
    let index = 0;
    for (const name of this.#fields.keys()) {
      const outcome = outcomes[index++]!;
      if (!outcome.ok) issues.push(...outcome.issues.map((issue) => below(name, issue)));
      else if (outcome.value !== undefined) value[name] = outcome.value;
    }
    if (issues.length > 0) return { ok: false, issues: issues.slice(0, maximumIssues) };
    return dropped.length === 0 ? { ok: true, value } : { ok: true, value, dropped };
  }
}

/** An issue of a field as an issue of the whole. */
function below(name: string, issue: SchemaIssue): SchemaIssue {
  const key = issuePath([name]);
  if (issue.path === "") {
    if (issue.received === "nothing") {
      return { ...issue, path: key, message: `\`${key}\` is missing: expected ${issue.expected}.` };
    }
    return { ...issue, path: key, message: `\`${key}\`: ${issue.message}` };
  }
  const path = issue.path.startsWith("[") ? key + issue.path : `${key}.${issue.path}`;
  return { ...issue, path, message: issue.message.replace(`\`${issue.path}\``, `\`${path}\``) };
}

function toJsonSchema(fields: ReadonlyMap<string, CompiledSchema>): JsonSchemaObject {
  const properties: Record<string, unknown> = {};
  const required: string[] = [];
  for (const [name, field] of fields) {
    const pointer = name.replaceAll("~", "~0").replaceAll("/", "~1");
    properties[name] = moveReferences(field.jsonSchema(), `#/properties/${encodeURIComponent(pointer)}`);
    if (!takesUndefined(field)) required.push(name);
  }
  return required.length === 0 ? { type: "object", properties } : { type: "object", properties, required };
}

/** A reference inside a field's schema counts from that field's place in the whole. */
function moveReferences(part: unknown, place: string): unknown {
  if (Array.isArray(part)) return part.map((member) => moveReferences(member, place));
  if (typeof part !== "object" || part === null) return part;
  return Object.fromEntries(
    Object.entries(part).map(([key, member]) => {
      const isReference = key === "$ref" && typeof member === "string" && member.startsWith("#");
      return [key, isReference ? place + member.slice(1) : moveReferences(member, place)];
    }),
  );
}

function takesUndefined(field: CompiledSchema): boolean {
  const outcome = field.validate(undefined);
  if (!isPromise(outcome)) return outcome.ok;
  // The answer of an asynchronous field is not waited for; such a field counts as required.
  outcome.catch(() => {});
  return false;
}
