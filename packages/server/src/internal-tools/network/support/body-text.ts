import { isUtf8 } from "node:buffer";

export interface ContentType {
  /** In lower case, without parameters; empty when the server gave none. */
  readonly mime: string;
  readonly charset: string | undefined;
}

export function parseContentType(header: string | undefined): ContentType {
  const [mime = "", ...parameters] = (header ?? "").split(";");
  const charset = parameters.map((text) => /^\s*charset\s*=\s*"?([^"\s]+)/i.exec(text)?.[1]).find(Boolean);
  return { mime: mime.trim().toLowerCase(), charset };
}

export function isJson(mime: string): boolean {
  return mime === "application/json" || mime === "text/json" || mime.endsWith("+json");
}

/** The body as text, or nothing when it is not text. `isTruncated`: the last character may be cut. */
export function bodyText(bytes: Buffer, type: ContentType, isTruncated: boolean): string | undefined {
  if (!isTextual(bytes, type, isTruncated)) return undefined;
  const label = byteOrderMark(bytes) ?? type.charset ?? declaredCharset(bytes, type.mime) ?? "utf-8";
  return decoderFor(label).decode(bytes, { stream: isTruncated });
}

/** JSON on indented lines. Numbers keep their digits, even those that JavaScript would round. */
export function prettyJson(text: string): string | undefined {
  return parseWith(
    text,
    (source) => sourceAwareJson.rawJSON(source),
    (value) => JSON.stringify(value, null, 2),
  );
}

/** JSON as a value. Integers that JavaScript would round become strings. */
export function parseJson(text: string): unknown {
  return parseWith(
    text,
    (source) => source,
    (value) => value,
  );
}

/** What every supported Node has, and the language's type library does not know yet. */
interface SourceAwareJson {
  parse(
    text: string,
    reviver: (key: string, value: unknown, context: { readonly source?: string }) => unknown,
  ): unknown;
  rawJSON(text: string): unknown;
}

const sourceAwareJson = JSON as unknown as SourceAwareJson;

function parseWith<T>(
  text: string,
  exact: (source: string) => unknown,
  finish: (value: unknown) => T,
): T | undefined {
  try {
    return finish(
      sourceAwareJson.parse(text, (_key, value, { source }) =>
        isRounded(value, source) ? exact(source) : value,
      ),
    );
  } catch {
    return undefined;
  }
}

function isRounded(value: unknown, source: string | undefined): source is string {
  return (
    typeof value === "number" &&
    source !== undefined &&
    /^-?\d+$/.test(source) &&
    !Number.isSafeInteger(value)
  );
}

const textTypes =
  /^text\/|[/+](json|xml|yaml|toml)$|^application\/(x-)?(javascript|ecmascript|ndjson|jsonlines|jsonl|json5|yaml|sh|www-form-urlencoded|graphql|graphql-response|sql|csv|tex|latex|httpd-php)$/;

function isTextual(bytes: Buffer, { mime, charset }: ContentType, isTruncated: boolean): boolean {
  if (textTypes.test(mime) || charset !== undefined) return true;
  if (mime !== "" && mime !== "application/octet-stream" && mime !== "binary/octet-stream") return false;
  // The server did not say. A cut may have split the last character, so that one is not judged.
  const judged = isTruncated ? bytes.subarray(0, lastBoundary(bytes)) : bytes;
  return isUtf8(judged) && !judged.includes(0);
}

function lastBoundary(bytes: Buffer): number {
  let end = bytes.length;
  while (end > 0 && (bytes[end - 1]! & 0b1100_0000) === 0b1000_0000) end--;
  return Math.max(0, end - 1);
}

function byteOrderMark(bytes: Buffer): string | undefined {
  if (bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf) return "utf-8";
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return "utf-16le";
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return "utf-16be";
  return undefined;
}

/** Pages and XML may name their charset inside, within the first kilobyte. */
function declaredCharset(bytes: Buffer, mime: string): string | undefined {
  if (!/html|xml/.test(mime)) return undefined;
  const start = bytes.subarray(0, 1_024).toString("latin1");
  return /<meta[^>]+charset\s*=\s*["']?([\w-]+)|<\?xml[^>]+encoding\s*=\s*["']([\w-]+)/i
    .exec(start)
    ?.slice(1)
    .find(Boolean);
}

function decoderFor(label: string): TextDecoder {
  try {
    return new TextDecoder(label);
  } catch {
    return new TextDecoder();
  }
}
