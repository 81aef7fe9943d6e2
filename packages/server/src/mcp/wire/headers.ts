import { isRecord, memberAt } from "@toolrack/core/internal/schema";
import type { RpcParams } from "./messages.ts";

/** An argument that the stateless protocol wants repeated as a header of the HTTP request. */
export interface HeaderParameter {
  readonly path: readonly string[];
  /** The `x-mcp-header` of the argument, unchecked, like its `type`. */
  readonly header: unknown;
  readonly type: unknown;
  /** The name of the HTTP header, in lower case. Undefined when `header` cannot be part of one. */
  readonly name: string | undefined;
}

const validName = /^[\w!#$%&'*+.^`|~-]+$/;

/**
 * The arguments for which a tool's schema asks for headers, with `x-mcp-header`. Looks only at properties with a fixed
 * path, not inside lists and alternatives.
 */
export function headerParameters(schema: RpcParams, path: readonly string[] = []): HeaderParameter[] {
  const { "x-mcp-header": header, type } = schema;
  const isNamed = typeof header === "string" && validName.test(header);
  const name = isNamed ? `mcp-param-${header.toLowerCase()}` : undefined;
  const properties = isRecord(schema.properties) ? Object.entries(schema.properties) : [];
  return [
    ...(header === undefined || path.length === 0 ? [] : [{ path, header, type, name }]),
    ...properties.flatMap(([key, part]) => (isRecord(part) ? headerParameters(part, [...path, key]) : [])),
  ];
}

/** The value that the header repeats. Undefined when there is none, or one that no header can hold. */
export function repeatedValue(
  { path }: HeaderParameter,
  args: unknown,
): string | number | boolean | undefined {
  const value = memberAt(args, path);
  const isPlain = typeof value === "string" || typeof value === "number" || typeof value === "boolean";
  return isPlain ? value : undefined;
}

/** Writes a value that a header cannot hold as base64, marked as the protocol says: `=?base64?…?=`. */
export function encodeHeader(value: string): string {
  const isPlain = /^[\t\x20-\x7E]+$/.test(value) && value === value.trim() && !value.startsWith("=?base64?");
  return isPlain ? value : `=?base64?${Buffer.from(value, "utf8").toString("base64")}?=`;
}

const decoder = new TextDecoder("utf-8", { fatal: true });

/** Reads what `encodeHeader` wrote. Undefined when a value is marked as base64 and is not base64 of text in UTF-8. */
export function decodeHeader(value: string): string | undefined {
  const inner = /^=\?base64\?(.*)\?=$/.exec(value)?.[1];
  if (inner === undefined) return value;
  if (!/^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(inner)) return undefined;
  try {
    return decoder.decode(Buffer.from(inner, "base64"));
  } catch {
    return undefined;
  }
}
