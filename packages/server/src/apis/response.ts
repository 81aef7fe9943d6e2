import {
  type BodyPart,
  bodyText,
  isJson,
  type OpenedResponse,
  parseContentType,
  parseJson,
} from "../access/index.ts";
import { asRecord, isRecord } from "../helpers/index.ts";
import type { Operation } from "./operations.ts";

/** How many characters of an error's body are shown. */
const SHOWN_BODY = 2_000;

/** Headers that tell a caller how to go on: where the next page is, and how many calls are left. */
const telling =
  /^(?:link|x-total-count|x-next-(?:page|cursor)|location|retry-after|(?:x-)?ratelimit-(?:limit|remaining|reset))$/;

/** The answer to a call, in the form of MCP. */
export interface ApiResult {
  readonly content: readonly Readonly<Record<string, unknown>>[];
  readonly structuredContent?: unknown;
  readonly isError?: boolean;
  readonly _meta?: Readonly<Record<string, unknown>>;
}

/** Turns the response of an API into a result. A status of 300 or more is an error with the API's own words. */
export function toResult(
  operation: Operation,
  { message, status }: OpenedResponse,
  part: BodyPart,
): ApiResult {
  const { bytes, isTruncated } = part;
  const type = parseContentType(message.headers["content-type"]);
  const text = bytes.length === 0 ? "" : bodyText(bytes, type, isTruncated);
  const json = text === undefined || isTruncated || !mayBeJson(type.mime) ? undefined : parseJson(text);
  const headers = Object.entries(message.headers).filter(([name]) => telling.test(name));
  const shown = Object.fromEntries(headers.map(([name, value]) => [name, [value].flat().join(", ")]));
  const meta = headers.length === 0 ? {} : { _meta: { "toolrack/headers": shown } };
  const line = `${operation.method} ${operation.path} answered ${`${status} ${message.statusMessage ?? ""}`.trim()}`;
  if (status < 200 || status > 299) {
    const words = wordsIn(json) ?? text?.trim() ?? "";
    const said = words === "" ? `${line}.` : `${line}: ${cut(words)}`;
    const hint = hintFor(status, shown);
    return { content: [{ type: "text", text: `${said}${hint}` }], isError: true, ...meta };
  }
  if (text === undefined) return { content: [fileBlock(operation, type.mime, part)], ...meta };
  if (text === "") return { content: [{ type: "text", text: `${line}; it has no body.` }], ...meta };
  const next = nextPage(shown.link);
  const more = next === undefined ? [] : [{ type: "text", text: `There is a next page: ${next}` }];
  if (isRecord(json))
    return {
      content: [{ type: "text", text: JSON.stringify(json) }, ...more],
      structuredContent: json,
      ...meta,
    };
  const end = isTruncated ? `\n[… cut after ${bytes.length.toLocaleString("en-US")} bytes …]` : "";
  return { content: [{ type: "text", text: `${text}${end}` }, ...more], ...meta };
}

/** Many servers send JSON without saying so. */
function mayBeJson(mime: string): boolean {
  return isJson(mime) || mime === "" || mime === "text/plain";
}

/** What an API says about its error, in the forms that APIs have. */
function wordsIn(json: unknown): string | undefined {
  if (!isRecord(json)) return undefined;
  const { error, errors, message, detail, title, error_description } = json;
  const first = Array.isArray(errors) ? errors[0] : undefined;
  const candidates = [
    message,
    asRecord(error).message,
    error_description,
    detail,
    error,
    asRecord(first).message,
    first,
    title,
  ];
  const words = candidates.find((one) => typeof one === "string" && one !== "");
  // The rest of the body often says which field is wrong.
  return typeof words === "string" ? `${words} (${JSON.stringify(json)})` : JSON.stringify(json);
}

function hintFor(status: number, headers: Readonly<Record<string, string>>): string {
  if (status === 401 || status === 403) return " Look at the credentials of this API: toolrack apis show";
  if (status >= 300 && status < 400 && status !== 304)
    return " The address of the API has moved; write the new one as its baseUrl.";
  const wait = headers["retry-after"];
  return status === 429 && wait !== undefined
    ? ` Try again after ${wait}${/^\d+$/.test(wait) ? " s" : ""}.`
    : "";
}

function cut(words: string): string {
  return words.length > SHOWN_BODY ? `${words.slice(0, SHOWN_BODY)}… [cut]` : words;
}

function fileBlock(
  operation: Operation,
  mime: string,
  { bytes, isTruncated }: BodyPart,
): Readonly<Record<string, unknown>> {
  const mimeType = mime || "application/octet-stream";
  if (isTruncated) {
    const size = bytes.length.toLocaleString("en-US");
    return { type: "text", text: `[binary content: ${mimeType}, more than ${size} bytes; it was not kept]` };
  }
  const data = Buffer.from(bytes).toString("base64");
  if (/^image\//.test(mimeType)) return { type: "image", data, mimeType };
  if (/^audio\//.test(mimeType)) return { type: "audio", data, mimeType };
  return {
    type: "resource",
    resource: { uri: `api:${encodeURIComponent(operation.name)}`, mimeType, blob: data },
  };
}

/** The address of the next page, from the header `Link`. */
function nextPage(link = ""): string | undefined {
  return /<([^<>]*)>\s*;[^,]*\brel="?next"?/i.exec(link)?.[1];
}
