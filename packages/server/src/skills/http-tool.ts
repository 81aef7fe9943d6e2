import { validateHeaderName, validateHeaderValue } from "node:http";
import type { ToolContext } from "@toolrack/core";
import {
  acceptedEncodings,
  type BodyPart,
  bodyText,
  createAddressRules,
  isJson,
  type OpenedResponse,
  openUrl,
  parseContentType,
  parseJson,
  readResponse,
  requestHeaders,
  withTimeLimit,
} from "../access/index.ts";
import { reasonOf } from "../helpers/index.ts";
import {
  type CheckedTool,
  filledArguments,
  fillValues,
  fillValuesWithin,
  hasSecretReference,
  hasSecretWithin,
  type ReadValue,
  type SkillSurroundings,
  skillResult,
  type ToolRunner,
  valuesFor,
} from "./checked-tool.ts";
import { type ToolUsage, UsageError } from "./tool-usage.ts";

export const usualHttpTimeout = 30_000;
const GRACE_MS = 5_000;
const DEFAULT_BYTES = 1024 * 1024;
/** How many characters of an error response's body the error shows. */
const SHOWN_BODY = 2_000;
const LARGEST_IMAGE = 1024 * 1024;

/** Returns the runner of a tool that is one HTTP request. Throws `UsageError` when it can never be sent. */
export function httpRunner(ready: CheckedTool, surroundings: SkillSurroundings): ToolRunner {
  const { skill, tool, usage } = ready;
  const template = readHttpTemplate(tool.endpoint, tool.method, usage);
  const { method } = template;
  // Private networks are only for trusted skills.
  const rules = createAddressRules(skill.trusted ? surroundings.allowPrivate : []);
  const { timeout = usualHttpTimeout, maxBytes = DEFAULT_BYTES } = usage.settings;
  return async (context: ToolContext) => {
    const input = await filledArguments(ready, surroundings, context);
    const readValue = valuesFor(skill, surroundings.readValue, context.env);
    const request = await fillRequest(template, input, readValue);
    const host = new URL(request.url).host;
    // The call itself ends at `timeout`; this later limit ends a request that did not stop then.
    return withTimeLimit(host, timeout + GRACE_MS, context.signal, async (signal) => {
      const opened = await openUrl({ ...request, method, rules, signal });
      return toResult(template, opened, await readResponse(opened, maxBytes, signal));
    });
  };
}

/** Puts the arguments and the secrets into the request. Throws for a value that does not fit its place. */
async function fillRequest(
  { endpoint, method, usage }: HttpTemplate,
  input: Readonly<Record<string, unknown>>,
  readValue: ReadValue,
) {
  const { headers, arguments: fixedArguments } = usage.settings;
  const fixed = requestHeaders(await fillValuesWithin(headers, readValue));
  const inEndpoint = new Set(endpointParameters(endpoint));
  const given: Record<string, string> = {};
  const query: [string, string][] = [];
  const fields: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(input)) {
    if (value === undefined || inEndpoint.has(name)) continue;
    const placed = usage.places.get(name);
    const place = placed?.in ?? (bodiless.has(method) ? "query" : "body");
    const as = placed?.as ?? name;
    if (place === "path") throw new Error(`The endpoint has no {${name}} for the parameter "${name}".`);
    if (place === "header") given[as.toLowerCase()] = plainText(value);
    else if (place === "query") query.push(...queryPairs(as, value));
    else fields[as] = value;
  }
  const path = endpoint.replace(placeholder, (_whole, name: string) =>
    pathValue(name, input[name], endpoint),
  );
  const url = query.length === 0 ? path : withQuery(path, query);
  const isForm = (fixed["content-type"] ?? "").startsWith("application/x-www-form-urlencoded");
  const pairs = Object.entries(fields);
  const form = () => new URLSearchParams(pairs.flatMap(([name, value]) => queryPairs(name, value)));
  const body = pairs.length === 0 ? undefined : isForm ? String(form()) : JSON.stringify(fields);
  return {
    url: await fillValues(url, readValue, encodeURIComponent),
    headers: {
      accept: "application/json, text/*;q=0.9, */*;q=0.8",
      "accept-encoding": acceptedEncodings,
      "user-agent": "toolrack",
      ...(body !== undefined && {
        "content-type": "application/json",
        "content-length": String(Buffer.byteLength(body)),
      }),
      // The operator's headers come last, so that a caller cannot replace them.
      ...requestHeaders(given),
      ...fixed,
    },
    body,
    // A redirect must not carry the secrets of this service elsewhere.
    followRedirects: !hasSecretWithin([endpoint, headers, fixedArguments]),
  };
}

function toResult(template: HttpTemplate, { message, status }: OpenedResponse, part: BodyPart): unknown {
  const { bytes, isTruncated } = part;
  const type = parseContentType(message.headers["content-type"]);
  const text = bytes.length === 0 ? "" : bodyText(bytes, type, isTruncated);
  if (status < 200 || status > 299)
    throw new Error(refusal(template, message.statusMessage, status, message.headers.location, text));
  if (text === undefined) return binary(type.mime, part);
  const json =
    isJson(type.mime) || type.mime === "" || type.mime === "text/plain" ? parseJson(text) : undefined;
  if (typeof json === "object" && json !== null && !isTruncated) return skillResult(json);
  if (text === "") return `${template.method} succeeded (${status}); the answer has no body.`;
  return isTruncated ? `${text}\n[… cut after ${bytes.length.toLocaleString("en-US")} bytes …]` : text;
}

/** The error names the endpoint as it was written, because the requested URL may contain secrets. */
function refusal(
  { method, endpoint }: HttpTemplate,
  words: string | undefined,
  status: number,
  location: string | undefined,
  text: string | undefined,
): string {
  const said = `${method} ${endpoint} answered ${`${status} ${words ?? ""}`.trim()}`;
  if (status >= 300 && status < 400 && location !== undefined) {
    return `${said} and leads to ${originOf(location, endpoint)}. Redirects are not followed for a tool that carries secrets; write the final address as its endpoint.`;
  }
  if (text === undefined || text.trim() === "") return `${said}, without a body that can be read.`;
  const head = text.trim();
  return `${said}: ${head.length > SHOWN_BODY ? `${head.slice(0, SHOWN_BODY)}… [cut]` : head}`;
}

function originOf(location: string, endpoint: string): string {
  return (
    URL.parse(location, endpoint.replace(/\{\{[^{}]*\}\}|\{[^{}]*\}/g, "x"))?.origin ?? "another address"
  );
}

function binary(mime: string, { bytes, isTruncated }: BodyPart): unknown {
  const size = `${isTruncated ? "more than " : ""}${bytes.length.toLocaleString("en-US")} bytes`;
  const isImage = /^image\/(png|jpeg|gif|webp)$/.test(mime) && !isTruncated && bytes.length <= LARGEST_IMAGE;
  if (!isImage) return `[binary content: ${mime || "type unknown"}, ${size}]`;
  return { content: [{ type: "image", data: bytes.toString("base64"), mimeType: mime }] };
}

/** An endpoint with its placeholders, and where each parameter goes. */
interface HttpTemplate {
  readonly method: string;
  /** The URL, with `{name}` for parameters and `{{secret:NAME}}` for secrets. */
  readonly endpoint: string;
  readonly usage: ToolUsage;
}

const methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
const bodiless = new Set(["GET", "HEAD", "DELETE", "OPTIONS"]);
// A parameter in an endpoint is written `{name}`, which differs from `{{secret:…}}`, or `:name` as a whole
// segment of the path.
const placeholder = /(?<!\{)\{([A-Za-z_][\w.-]*)\}(?!\})/g;
const segment = /(?<=\/):([A-Za-z_]\w*)(?=\/|\?|#|$)/g;

/** Checks the endpoint before any call. Throws `UsageError` that names the field. */
function readHttpTemplate(
  endpoint: string | undefined,
  method: string | undefined,
  usage: ToolUsage,
): HttpTemplate {
  const wrong = (message: string) => new UsageError(message, "endpoint");
  if (endpoint === undefined || endpoint.trim() === "")
    throw wrong("An http tool needs an endpoint, such as https://api.example.com/search.");
  refusePlainCredentials(endpoint);
  const verb = (method ?? "").trim().toUpperCase() || "GET";
  if (!methods.includes(verb))
    throw new UsageError(`The method "${method}" is unknown; there are ${methods.join(", ")}.`, "method");
  const whole = endpoint.trim().replace(segment, "{$1}");
  const origin = /^https?:\/\/[^/?#]*/i.exec(whole)?.[0];
  if (origin === undefined)
    throw wrong(`The endpoint "${endpoint}" must begin with http:// or https:// and a host.`);
  if (origin.search(placeholder) !== -1)
    throw wrong("A parameter cannot be part of the endpoint's host: callers would choose it.");
  if (!URL.canParse(whole.replace(/\{\{[^{}]*\}\}/g, "x").replace(placeholder, "x")))
    throw wrong(`The endpoint "${endpoint}" is not a URL.`);
  const inEndpoint = new Set(endpointParameters(whole));
  for (const [name, { in: place }] of usage.places) {
    if (place !== "path" || inEndpoint.has(name)) continue;
    throw wrong(`The endpoint has no {${name}} for the parameter "${name}".`);
  }
  checkHeaders(usage.settings.headers);
  return { endpoint: whole, method: verb, usage };
}

/** The endpoint appears in records and errors, so it must hold no password. This error does not repeat it. */
function refusePlainCredentials(endpoint: string): void {
  const credentials = /^\s*[a-z][\w+.-]*:\/\/([^/?#]*)@/i.exec(endpoint)?.[1];
  if (credentials === undefined || hasSecretReference(credentials)) return;
  throw new UsageError(
    "The endpoint has a user or password in it. Set them as secrets, and write {{secret:NAME}} in their place.",
    "endpoint",
  );
}

function checkHeaders(headers: Readonly<Record<string, string>>): void {
  try {
    requestHeaders(headers);
    for (const [name, value] of Object.entries(headers)) {
      validateHeaderName(name);
      validateHeaderValue(name, value);
    }
  } catch (thrown) {
    throw new UsageError(`usage.headers cannot be sent: ${reasonOf(thrown)}`);
  }
}

export function endpointParameters(endpoint: string): string[] {
  return [...endpoint.replace(segment, "{$1}").matchAll(placeholder)].map(([, name]) => name!);
}

function queryPairs(name: string, value: unknown): [string, string][] {
  if (value === null) return [];
  if (Array.isArray(value)) return value.map((member) => [name, plainText(member)]);
  return [[name, plainText(value)]];
}

function plainText(value: unknown): string {
  return typeof value === "object" && value !== null ? JSON.stringify(value) : String(value);
}

/** Encodes a value for its place in the endpoint, so that it cannot lead to another path. */
function pathValue(name: string, value: unknown, endpoint: string): string {
  const text = value === undefined || value === null ? "" : plainText(value);
  const isInQuery = endpoint.indexOf("?") !== -1 && endpoint.indexOf("?") < endpoint.indexOf(`{${name}}`);
  if (isInQuery) return encodeURIComponent(text.toWellFormed());
  if (text === "") throw new Error(`The parameter "${name}" is part of the address and must not be empty.`);
  // A URL reads `.` and `..` as "this folder" and "one up", encoded or not.
  if (/^(?:\.|%2e){1,2}$/i.test(text)) throw new Error(`The parameter "${name}" must not be "${text}".`);
  return encodeURIComponent(text.toWellFormed());
}

function withQuery(url: string, pairs: [string, string][]): string {
  const hash = url.indexOf("#");
  const [head, tail] = hash === -1 ? [url, ""] : [url.slice(0, hash), url.slice(hash)];
  return `${head}${head.includes("?") ? "&" : "?"}${new URLSearchParams(pairs)}${tail}`;
}
