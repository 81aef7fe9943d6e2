import type { FieldShape } from "./field-node.ts";
import type { Keywords } from "./merge-schemas.ts";

const longTexts =
  /^(content|text|body|prompt|code|script|sql|query|template|markdown|html|message|source|patch|diff|stdin)$/i;
const longFormats = new Set(["textarea", "markdown", "code", "multiline", "html"]);
const secretNames = /(password|passwd|secret|api_?key|access_?token|private_?key)/i;

/** What a text is: a line, a page, a secret or a file. Its format says so, or else often its name. */
export function textShape(
  { format, contentEncoding, contentMediaType, maxLength }: Keywords,
  key: string,
): FieldShape {
  const named = typeof format === "string" ? format : undefined;
  if (named === "data-url") return { kind: "file", as: "data-url" };
  if (contentEncoding === "base64" || named === "binary" || named === "byte" || named === "file") {
    return { kind: "file", as: "base64" };
  }
  const isShort = typeof maxLength === "number" && maxLength <= 120;
  const isLong =
    longFormats.has(named ?? "") || contentMediaType !== undefined || (!isShort && longTexts.test(key));
  return {
    kind: "text",
    multiline: isLong || (typeof maxLength === "number" && maxLength > 500),
    secret: named === "password" || secretNames.test(key),
    ...(named === undefined ? {} : { format: named }),
  };
}
