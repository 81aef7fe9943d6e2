export type ParsedJson =
  | { readonly ok: true; readonly value: unknown }
  /** `inexact`: a number that a program would read as another one. */
  | { readonly ok: false; readonly message: string; readonly inexact?: string };

/** The value of a JSON text. One that would lose digits on the way, as ids of 17 digits do, is none. */
export function parseJson(text: string): ParsedJson {
  let inexact: string | undefined;
  // How a number was written is told to whoever asks, though TypeScript does not know of it yet.
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

/** Whether a number is read as what is written. The last digits of a fraction are nobody's id. */
export function isExact(written: string): boolean {
  const value = Number(written);
  if (!Number.isFinite(value)) return false;
  return !/^[+-]?\d+$/.test(written) || BigInt(written.replace("+", "")) === BigInt(value);
}
