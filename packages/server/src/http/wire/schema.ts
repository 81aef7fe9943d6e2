import type { JsonSchemaObject } from "@toolrack/core";

declare const value: unique symbol;

/** A JSON Schema with the TypeScript type of the values it accepts, so that each shape is written once. */
export interface Schema<Value = unknown> extends JsonSchemaObject {
  readonly [value]?: Value;
}

/** The members of an object by name. A member whose name ends with `?` may be left out. */
export type Shape = Readonly<Record<string, JsonSchemaObject>>;

type ValueOf<One> = One extends Schema<infer Value> ? Value : unknown;

/** The TypeScript type of an object of the shape. */
export type Values<Members> = {
  readonly [Name in keyof Members as Name extends `${string}?` ? never : Name]: ValueOf<Members[Name]>;
} & {
  readonly [Name in keyof Members as Name extends `${infer Bare}?` ? Bare : never]?: ValueOf<Members[Name]>;
};

/** A description, or any further keywords. */
type More = string | JsonSchemaObject;

function withMore(schema: JsonSchemaObject, more: More = {}): JsonSchemaObject {
  return { ...schema, ...(typeof more === "string" ? { description: more } : more) };
}

export function text(more?: More): Schema<string> {
  return withMore({ type: "string" }, more);
}

export function number(more?: More): Schema<number> {
  return withMore({ type: "number" }, more);
}

export function integer(more?: More): Schema<number> {
  return withMore({ type: "integer" }, more);
}

/** A number from 0 on. */
export function amount(more?: More): Schema<number> {
  return withMore({ type: "number", minimum: 0 }, more);
}

/** An integer from 0 on. */
export function count(more?: More): Schema<number> {
  return withMore({ type: "integer", minimum: 0 }, more);
}

export function moment(description = "Milliseconds since the epoch."): Schema<number> {
  return number(description);
}

export function boolean(more?: More): Schema<boolean> {
  return withMore({ type: "boolean" }, more);
}

export function choice<const Value>(values: readonly Value[], more?: More): Schema<Value> {
  return withMore({ enum: values }, more);
}

export function constant<const Value>(only: Value): Schema<Value> {
  return { const: only };
}

export function list<Item>(items: Schema<Item>, more?: More): Schema<readonly Item[]> {
  return withMore({ type: "array", items }, more);
}

export function texts(more?: More): Schema<readonly string[]> {
  return list(text(), more);
}

/** An object with these members, and maybe others. */
export function object<const Members extends Shape>(members: Members, more?: More): Schema<Values<Members>> {
  const entries = Object.entries(members);
  const required = entries.map(([name]) => name).filter((name) => !name.endsWith("?"));
  const properties = Object.fromEntries(entries.map(([name, schema]) => [bareName(name), schema]));
  return withMore({ type: "object", properties, ...(required.length === 0 ? {} : { required }) }, more);
}

/** An object with these members and no others. */
export function closed<const Members extends Shape>(members: Members, more?: More): Schema<Values<Members>> {
  return { ...object(members, more), additionalProperties: false };
}

/** An object with any member names and one type of values. */
export function map<Value>(values: Schema<Value>, more?: More): Schema<Readonly<Record<string, Value>>> {
  return withMore({ type: "object", additionalProperties: values }, more);
}

export function anyObject(more?: More): Schema<Record<string, unknown>> {
  return withMore({ type: "object" }, more);
}

export function anything(more?: More): Schema {
  return withMore({}, more);
}

/** The same schema, but null is accepted too. */
export function nullable<Value>(schema: Schema<Value>): Schema<Value | null> {
  return { ...schema, type: [schema.type, "null"] };
}

/** A reference to a named schema of `/openapi.json`. */
export function ref<Value = unknown>(name: string): Schema<Value> {
  return { $ref: `#/components/schemas/${name}` };
}

/** An object with a list in `items`, the form of most lists in the API. */
export function items(schema: JsonSchemaObject): Schema {
  return object({ items: list(schema) });
}

/** One page of a longer list. */
export function page(schema: JsonSchemaObject): Schema {
  const next = text("The `cursor` of the next page; absent on the last.");
  return object({ items: list(schema), "next?": next });
}

/** The same members, all optional. */
export function partial<const Members extends Shape>(
  members: Members,
): {
  readonly [Name in keyof Members & string as Name extends `${string}?` ? Name : `${Name}?`]: Members[Name];
};
export function partial(members: Shape): Shape {
  return Object.fromEntries(Object.entries(members).map(([name, schema]) => [`${bareName(name)}?`, schema]));
}

function bareName(name: string): string {
  return name.endsWith("?") ? name.slice(0, -1) : name;
}
