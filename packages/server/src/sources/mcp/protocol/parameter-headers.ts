import { isRecord } from "../../../json/is-record.ts";

/** An argument that the stateless protocol wants repeated as a header of the HTTP request. */
interface HeaderParameter {
  readonly path: readonly string[];
  readonly header: string;
}

type Schema = Readonly<Record<string, unknown>>;

/** What the name of a header can be made of. */
const token = /^[\w!#$%&'*+.^`|~-]+$/;

const known = new WeakMap<object, readonly HeaderParameter[]>();

/** The headers that a tool's schema asks for with `x-mcp-header`; undefined when it asks for none. */
export function parameterHeaders(schema: Schema, input: unknown): Record<string, string> | undefined {
  let parameters = known.get(schema);
  if (parameters === undefined) {
    parameters = parametersOf(schema, []);
    known.set(schema, parameters);
  }
  if (parameters.length === 0) return undefined;
  return Object.fromEntries(
    parameters.flatMap(({ path, header }) => {
      const value = path.reduce<unknown>(
        (at, key) => (isRecord(at) && Object.hasOwn(at, key) ? at[key] : undefined),
        input,
      );
      if (!["string", "number", "boolean"].includes(typeof value)) return [];
      return [[`Mcp-Param-${header}`, headerValue(String(value))]];
    }),
  );
}

/** Only properties that every call reaches the same way: not those inside lists and alternatives. */
function parametersOf(schema: Schema, path: readonly string[]): HeaderParameter[] {
  const header = schema["x-mcp-header"];
  const own = typeof header === "string" && token.test(header) && path.length > 0 ? [{ path, header }] : [];
  const properties = isRecord(schema.properties) ? Object.entries(schema.properties) : [];
  return [
    ...own,
    ...properties.flatMap(([key, part]) => (isRecord(part) ? parametersOf(part, [...path, key]) : [])),
  ];
}

/** What a header cannot hold as it is goes as base64, marked as the protocol says. */
export function headerValue(value: string): string {
  const isPlain = /^[\t\x20-\x7E]+$/.test(value) && value === value.trim() && !value.startsWith("=?base64?");
  return isPlain ? value : `=?base64?${Buffer.from(value, "utf8").toString("base64")}?=`;
}
