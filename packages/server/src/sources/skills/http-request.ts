import { validateHeaderName, validateHeaderValue } from "node:http";
import { requestHeaders } from "../../internal-tools/network/support/headers.ts";
import { hasSecretReference } from "./secret-references.ts";
import type { ParameterPlace, ToolUsage } from "./usage.ts";
import { UsageError } from "./usage-error.ts";

/** An endpoint with its placeholders, and where each parameter goes. */
export interface HttpTemplate {
  readonly method: string;
  /** With `{name}` for parameters and `{{secret:NAME}}` for secrets. */
  readonly endpoint: string;
  readonly usage: ToolUsage;
}

export interface FilledRequest {
  /** Without what stands for secrets having been replaced. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
}

const methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
const bodiless = new Set(["GET", "HEAD", "DELETE", "OPTIONS"]);
/** `{name}`, but not `{{secret:…}}`; or `:name` as a whole segment of the path. */
const placeholder = /(?<!\{)\{([A-Za-z_][\w.-]*)\}(?!\})/g;
const segment = /(?<=\/):([A-Za-z_]\w*)(?=\/|\?|#|$)/g;

/** Checks what can be checked before anybody calls. Throws `UsageError` that names the field. */
export function readHttpTemplate(
  endpoint: string | undefined,
  method: string | undefined,
  usage: ToolUsage,
): HttpTemplate {
  if (endpoint === undefined || endpoint.trim() === "") {
    throw new UsageError(
      "An http tool needs an endpoint, such as https://api.example.com/search.",
      "endpoint",
    );
  }
  refusePlainCredentials(endpoint);
  const verb = (method ?? "").trim().toUpperCase() || "GET";
  if (!methods.includes(verb)) {
    throw new UsageError(`The method "${method}" is unknown; there are ${methods.join(", ")}.`, "method");
  }
  const whole = endpoint.trim().replace(segment, "{$1}");
  const origin = /^https?:\/\/[^/?#]*/i.exec(whole)?.[0];
  if (origin === undefined) {
    throw new UsageError(
      `The endpoint "${endpoint}" must begin with http:// or https:// and a host.`,
      "endpoint",
    );
  }
  if (origin.search(placeholder) !== -1) {
    throw new UsageError(
      "A parameter cannot be part of the endpoint's host: callers would choose it.",
      "endpoint",
    );
  }
  if (!URL.canParse(withoutPlaceholders(whole))) {
    throw new UsageError(`The endpoint "${endpoint}" is not a URL.`, "endpoint");
  }
  const inEndpoint = new Set(endpointParameters(whole));
  for (const [name, { in: place }] of usage.places) {
    if (place !== "path" || inEndpoint.has(name)) continue;
    throw new UsageError(`The endpoint has no {${name}} for the parameter "${name}".`, "endpoint");
  }
  checkHeaders(usage.settings.headers);
  return { endpoint: whole, method: verb, usage };
}

/** The endpoint stands in records and errors, so a password in it would too. It is not repeated here. */
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
    throw new UsageError(
      `usage.headers cannot be sent: ${thrown instanceof Error ? thrown.message : thrown}`,
    );
  }
}

/** Names that stand in the endpoint. */
export function endpointParameters(endpoint: string): string[] {
  return [...endpoint.replace(segment, "{$1}").matchAll(placeholder)].map(([, name]) => name!);
}

/** Puts the arguments where they belong. Throws for a value that cannot be there. */
export function fillRequest(
  { endpoint, method, usage }: HttpTemplate,
  input: Readonly<Record<string, unknown>>,
): FilledRequest {
  const inEndpoint = new Set(endpointParameters(endpoint));
  const headers: Record<string, string> = {};
  const query: [string, string][] = [];
  const body: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(input)) {
    if (value === undefined || inEndpoint.has(name)) continue;
    const placed = usage.places.get(name);
    const place = placed?.in ?? usualPlace(method);
    const as = placed?.as ?? name;
    if (place === "path") throw new Error(`The endpoint has no {${name}} for the parameter "${name}".`);
    if (place === "header") headers[as.toLowerCase()] = plainText(value);
    else if (place === "query") query.push(...queryPairs(as, value));
    else body[as] = value;
  }
  const path = endpoint.replace(placeholder, (_whole, name: string) =>
    pathValue(name, input[name], endpoint),
  );
  const url = query.length === 0 ? path : withQuery(path, query);
  if (Object.keys(body).length === 0) return { url, headers };
  return { url, headers, body: JSON.stringify(body) };
}

/** The body as a form, when that is what the tool's own headers ask for. */
export function asForm(json: string): string {
  // Written by `fillRequest`.
  const fields = JSON.parse(json) as Record<string, unknown>;
  return new URLSearchParams(
    Object.entries(fields).flatMap(([name, value]) => queryPairs(name, value)),
  ).toString();
}

function usualPlace(method: string): ParameterPlace {
  return bodiless.has(method) ? "query" : "body";
}

function queryPairs(name: string, value: unknown): [string, string][] {
  if (value === null) return [];
  if (Array.isArray(value)) return value.map((member) => [name, plainText(member)]);
  return [[name, plainText(value)]];
}

function plainText(value: unknown): string {
  return typeof value === "object" && value !== null ? JSON.stringify(value) : String(value);
}

/** One segment, or a part of one: nothing in it can lead elsewhere. */
function pathValue(name: string, value: unknown, endpoint: string): string {
  const text = value === undefined || value === null ? "" : plainText(value);
  const isInQuery = endpoint.indexOf("?") !== -1 && endpoint.indexOf("?") < endpoint.indexOf(`{${name}}`);
  if (isInQuery) return encodeURIComponent(text.toWellFormed());
  if (text === "") throw new Error(`The parameter "${name}" is part of the address and must not be empty.`);
  // A URL reads these as "here" and "one up", encoded or not.
  if (/^(?:\.|%2e){1,2}$/i.test(text)) throw new Error(`The parameter "${name}" must not be "${text}".`);
  return encodeURIComponent(text.toWellFormed());
}

function withQuery(url: string, pairs: [string, string][]): string {
  const hash = url.indexOf("#");
  const [head, tail] = hash === -1 ? [url, ""] : [url.slice(0, hash), url.slice(hash)];
  return `${head}${head.includes("?") ? "&" : "?"}${new URLSearchParams(pairs)}${tail}`;
}

function withoutPlaceholders(endpoint: string): string {
  return endpoint.replace(/\{\{[^}]*\}\}/g, "x").replace(placeholder, "x");
}
