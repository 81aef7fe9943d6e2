import type { ParsedJson } from "../text/parse-json.ts";

/** What is wrong with a JSON text, for who types it. */
export function jsonProblem(
  { message, inexact }: Extract<ParsedJson, { ok: false }>,
  t: (key: string, values: Record<string, string>) => string,
): string {
  return inexact === undefined
    ? t("form.notJson", { problem: message })
    : t("form.inexact", { number: inexact });
}
