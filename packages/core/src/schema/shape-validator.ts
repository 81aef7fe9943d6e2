import { withoutPrototypeKeys } from "./copy-plain.ts";
import { describeFailure } from "./describe-failure.ts";
import { issuePath } from "./issue-path.ts";
import { isPromise } from "./library-validator.ts";
import { memberAt } from "./member-at.ts";
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
    const object: object = clean;
    const outcomes = this.#validateFields(object);
    const unknown = Object.keys(object).filter((key) => !this.#fields.has(key));
    const strict = options?.strict === true;
    if (!outcomes.some(isPromise)) return this.#finish(outcomes as SchemaOutcome[], object, unknown, strict); // None is a promise.
    return Promise.all(outcomes).then((settled) => this.#finish(settled, object, unknown, strict));
  }

  #validateFields(object: object): (SchemaOutcome | Promise<SchemaOutcome>)[] {
    const outcomes = [];
    for (const [name, field] of this.#fields) outcomes.push(field.validate(memberAt(object, [name])));
    return outcomes;
  }

  #finish(
    outcomes: readonly SchemaOutcome[],
    object: object,
    unknown: readonly string[],
    strict: boolean,
  ): SchemaOutcome {
    const value: Record<string, unknown> = {};
    const issues: SchemaIssue[] = strict
      ? unknown.map((key) => unknownKey([], key, memberAt(object, [key]), this.#fields.keys()))
      : [];
    let index = 0;
    for (const name of this.#fields.keys()) {
      const outcome = outcomes[index++]!;
      if (!outcome.ok) issues.push(...outcome.issues.map((issue) => below(name, issue)));
      else if (outcome.value !== undefined) value[name] = outcome.value;
    }
    if (issues.length > 0) return { ok: false, issues: issues.slice(0, maximumIssues) };
    return unknown.length === 0 ? { ok: true, value } : { ok: true, value, dropped: unknown };
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
