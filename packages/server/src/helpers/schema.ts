import type { JsonSchemaObject } from "@toolrack/core";

declare const value: unique symbol;

/** A JSON Schema with the TypeScript type of the values it accepts, so that each shape is written once. */
export interface Schema<Value = unknown> extends JsonSchemaObject {
  readonly [value]?: Value;
}

/** The members of an object by name. A member whose name ends with `?` may be left out. */
export type Shape = Readonly<Record<string, JsonSchemaObject>>;

/** The TypeScript type of the values that a schema accepts. */
export type ValueOf<One> = One extends Schema<infer Value> ? Value : unknown;

/** The TypeScript type of an object of the shape. */
export type Values<Members> = {
  readonly [Name in keyof Members as Name extends `${string}?` ? never : Name]: ValueOf<Members[Name]>;
} & {
  readonly [Name in keyof Members as Name extends `${infer Bare}?` ? Bare : never]?:
    | ValueOf<Members[Name]>
    | undefined;
};

/** A description, which more keywords may follow, or any further keywords. */
type More = string | JsonSchemaObject;

function withMore(schema: JsonSchemaObject, more: More = {}, rules?: JsonSchemaObject): JsonSchemaObject {
  return { ...schema, ...rules, ...(typeof more === "string" ? { description: more } : more) };
}

export function text(more?: More, rules?: JsonSchemaObject): Schema<string> {
  return withMore({ type: "string" }, more, rules);
}

export function number(more?: More, rules?: JsonSchemaObject): Schema<number> {
  return withMore({ type: "number" }, more, rules);
}

export function integer(more?: More, rules?: JsonSchemaObject): Schema<number> {
  return withMore({ type: "integer" }, more, rules);
}

/** A number from 0 on. */
export function amount(more?: More, rules?: JsonSchemaObject): Schema<number> {
  return withMore({ type: "number", minimum: 0 }, more, rules);
}

/** An integer from 0 on. */
export function count(more?: More, rules?: JsonSchemaObject): Schema<number> {
  return withMore({ type: "integer", minimum: 0 }, more, rules);
}

export function moment(description = "Milliseconds since the epoch."): Schema<number> {
  return number(description);
}

export function boolean(more?: More, rules?: JsonSchemaObject): Schema<boolean> {
  return withMore({ type: "boolean" }, more, rules);
}

export function choice<const Value>(values: readonly Value[], more?: More): Schema<Value> {
  return withMore({ enum: values }, more);
}

export function constant<const Value>(only: Value): Schema<Value> {
  return { const: only };
}

export function list<Item>(
  items: Schema<Item>,
  more?: More,
  rules?: JsonSchemaObject,
): Schema<readonly Item[]> {
  return withMore({ type: "array", items }, more, rules);
}

export function texts(more?: More): Schema<readonly string[]> {
  return list(text(), more);
}

/** An object with these members, and maybe others. A member with a default may be left out, and is filled in. */
export function object<const Members extends Shape>(members: Members, more?: More): Schema<Values<Members>> {
  const entries = Object.entries(members);
  const required = entries.flatMap(([name, schema]) =>
    name.endsWith("?") || "default" in schema ? [] : [name],
  );
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

export function anything<Value = unknown>(more?: More): Schema<Value> {
  return withMore({}, more);
}

/** The same schema, but null is accepted too. */
export function nullable<Value>(schema: Schema<Value>): Schema<Value | null> {
  return { ...schema, type: [schema.type, "null"] };
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
