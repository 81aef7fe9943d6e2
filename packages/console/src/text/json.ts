import { t } from "./i18n.ts";

/** A value as JSON on several lines, for people. */
export function asJson(value: unknown): string {
  return JSON.stringify(value, undefined, 2);
}

export type ParsedJson =
  | { readonly ok: true; readonly value: unknown }
  /** `inexact`: a number that would lose digits. */
  | { readonly ok: false; readonly message: string; readonly inexact?: string };

/** Parses JSON. Fails for numbers that would lose digits, such as ids of 17 digits. */
export function parseJson(text: string): ParsedJson {
  let inexact: string | undefined;
  // Browsers pass the written number to the reviver, but TypeScript does not know it yet.
  const check = (_key: string, value: unknown, context?: { source?: string }) => {
    if (typeof value === "number" && context?.source !== undefined && !isExact(context.source))
      inexact ??= context.source;
    return value;
  };
  try {
    const value: unknown = JSON.parse(text, check);
    if (inexact === undefined) return { ok: true, value };
    return { ok: false, message: inexact, inexact };
  } catch (thrown) {
    return { ok: false, message: thrown instanceof Error ? thrown.message : String(thrown) };
  }
}

/** Whether a written number keeps its digits when it is parsed. Lost digits of a fraction do not matter. */
export function isExact(written: string): boolean {
  const value = Number(written);
  if (!Number.isFinite(value)) return false;
  return !/^[+-]?\d+$/.test(written) || BigInt(written.replace("+", "")) === BigInt(value);
}

export function jsonProblem({ message, inexact }: Extract<ParsedJson, { ok: false }>): string {
  return inexact === undefined
    ? t("form.notJson", { problem: message })
    : t("form.inexact", { number: inexact });
}

/**
 * Reads JSON with comments, extra commas, single quotes or code fences. Undefined for text without an object or list.
 */
export async function mendJson(text: string): Promise<unknown> {
  const bare = withoutFences(text);
  const read = parse(bare);
  if (read !== undefined) return read;
  if (!/^(?:\/\/[^\n]*\n|\/\*[\s\S]*?\*\/|\s)*[[{]/.test(bare)) return undefined;
  const { jsonrepair } = await import("jsonrepair");
  try {
    return parse(jsonrepair(bare));
  } catch {
    return undefined;
  }
}

/** The text between the first code fences, or the whole text. */
export function withoutFences(text: string): string {
  const fenced = /^[ \t]*(```+|~~~+)[^\n]*\n([\s\S]*?)(?:^[ \t]*\1|$(?![\s\S]))/m.exec(text);
  return (fenced?.[2] ?? text).trim();
}

function parse(text: string): unknown {
  const read = parseJson(text);
  return read.ok ? read.value : undefined;
}
