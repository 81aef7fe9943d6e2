import type { IncomingHttpHeaders } from "node:http";
import { type ToolInfo, toDefinition } from "@toolrack/core";

interface Declared {
  /** As Node spells it. */
  readonly header: string;
  readonly path: readonly string[];
}

/** Keyed by the tool itself: a new version of it is another object. */
const known = new WeakMap<ToolInfo, readonly Declared[]>();

/** The arguments that a tool wants to be repeated in headers, by `x-mcp-header` in its schema. */
export function declaredHeaders(tool: ToolInfo): readonly Declared[] {
  let declared = known.get(tool);
  if (declared === undefined) {
    declared = find(toDefinition(tool).inputSchema, []);
    known.set(tool, declared);
  }
  return declared;
}

/** Says how headers and arguments disagree; whoever routes by the headers must be able to trust them. */
export function paramMismatch(
  tool: ToolInfo,
  args: unknown,
  headers: IncomingHttpHeaders,
): string | undefined {
  for (const { header, path } of declaredHeaders(tool)) {
    const value = path.reduce<unknown>(
      (at, key) => (at as Record<string, unknown> | null | undefined)?.[key],
      args,
    );
    if (typeof value !== "string" && typeof value !== "number" && typeof value !== "boolean") continue;
    const sent = headers[header];
    if (typeof sent !== "string")
      return `${path.join(".")} is in the body, but there is no header ${header}.`;
    const said = decode(sent.trim());
    if (said === undefined) return `The header ${header} is not base64 of text in UTF-8.`;
    const isSame = typeof value === "number" ? Number(said) === value && said !== "" : said === String(value);
    if (!isSame) return `The header ${header} and ${path.join(".")} in the body differ.`;
  }
  return undefined;
}

function find(schema: unknown, path: readonly string[]): Declared[] {
  if (typeof schema !== "object" || schema === null) return [];
  const { properties, "x-mcp-header": name } = schema as { properties?: object; "x-mcp-header"?: unknown };
  const own =
    typeof name === "string" && path.length > 0 ? [{ header: `mcp-param-${name.toLowerCase()}`, path }] : [];
  const below = Object.entries(properties ?? {}).flatMap(([key, part]) => find(part, [...path, key]));
  return [...own, ...below];
}

const wrapped = /^=\?base64\?(.*)\?=$/;
const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
const decoder = new TextDecoder("utf-8", { fatal: true });

/** What a header cannot carry is wrapped in base64. Undefined when that is broken. */
function decode(value: string): string | undefined {
  const inner = wrapped.exec(value)?.[1];
  if (inner === undefined) return value;
  if (!base64.test(inner)) return undefined;
  try {
    return decoder.decode(Buffer.from(inner, "base64"));
  } catch {
    return undefined;
  }
}
