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
  parseUrl,
  prettyJson,
  readResponse,
  requestHeaders,
  shownHeaders,
  withTimeLimit,
} from "../../access/index.ts";
import * as s from "../../helpers/schema.ts";
import { answer, defineTool } from "../tool-definition.ts";

const USUAL_TIMEOUT = 30_000;
const LONGEST_TIMEOUT = 5 * 60_000;
const USUAL_BYTES = 1_048_576;
const MOST_BYTES = 10 * 1_048_576;
const LARGEST_IMAGE = 1_048_576;

const methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/**
 * Response headers that the text shows, because they tell a model what to do next. The structured result has
 * all headers.
 */
const shownInText = [
  "content-type",
  "location",
  "retry-after",
  "www-authenticate",
  "allow",
  "link",
  "last-modified",
];

type QueryValues = Readonly<Record<string, unknown>>;

const queryValue = { type: ["string", "number", "boolean"] };

export default defineTool({
  name: "request",
  description:
    "Sends an HTTP request and gives the answer: status, headers and body. JSON is indented, text decoded by its charset, small images are shown, other binary content is described (use internal_network_download to keep it). A status of 400 or above is reported as an error together with the body. Bodies are cut at `maxBytes`. Only http and https, and only public addresses: localhost, private networks and cloud metadata are refused unless the operator allowed them. Credentials are dropped when a redirect leads to another origin.",
  input: {
    url: s.text("A whole address, with http:// or https://.", { minLength: 1 }),
    method: s.text("The HTTP method.", { enum: methods, default: "GET" }),
    "headers?": s.map(s.text(), "Request headers."),
    "query?": s.anything<QueryValues>({
      type: "object",
      additionalProperties: { anyOf: [queryValue, { type: "array", items: queryValue }] },
      description: "Parameters to add to the URL; they are encoded for you. A list repeats the parameter.",
    }),
    "body?": s.anything<unknown>({
      description:
        "A string is sent as it is; anything else is sent as JSON. The content-type is chosen to fit unless headers give one.",
    }),
    timeout: s.integer("Milliseconds for the whole exchange, redirects and body included.", {
      minimum: 1,
      maximum: LONGEST_TIMEOUT,
      default: USUAL_TIMEOUT,
    }),
    maxBytes: s.integer("Most bytes of the body to read, counted after decompression.", {
      minimum: 1,
      maximum: MOST_BYTES,
      default: USUAL_BYTES,
    }),
    followRedirects: s.boolean("Follow up to 5 redirects.", { default: true }),
  },
  isClosed: true,
  output: {
    status: s.integer(),
    statusText: s.text(),
    url: s.text("Where the answer came from."),
    redirected: s.boolean(),
    headers: s.map(s.text()),
    body: s.anything({
      description: "A value for JSON, a string for other text, null for binary content or none.",
    }),
    bytes: s.integer("How much of the body was read."),
    truncated: s.boolean(),
    elapsed: s.number("Milliseconds."),
  },
  async handler({ method, timeout, maxBytes, followRedirects, ...args }, ctx) {
    const startedAt = performance.now();
    const url = withQuery(args.url, args.query);
    const outgoing = outgoingBody(method, args.body);
    const [response, part] = await withTimeLimit(url.host, timeout, ctx.signal, async (signal) => {
      const opened = await openUrl({
        url: url.href,
        method,
        headers: {
          accept: "*/*",
          "accept-encoding": acceptedEncodings,
          "user-agent": "toolrack",
          ...outgoing?.headers,
          ...requestHeaders(args.headers),
        },
        body: outgoing?.text,
        followRedirects,
        rules: createAddressRules(ctx.workspace.network.allowPrivate),
        signal,
      });
      return [opened, await readResponse(opened, maxBytes, signal)] as const;
    });
    return toResult(response, part, Math.round(performance.now() - startedAt));
  },
  metadata: {
    category: "network",
    openWorld: true,
    timeout: LONGEST_TIMEOUT + 5_000,
    tags: ["http", "fetch", "api", "web"],
  },
});

function withQuery(text: string, query: QueryValues = {}): URL {
  const url = parseUrl(text);
  for (const [name, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) url.searchParams.append(name, String(one));
  }
  return url;
}

function outgoingBody(method: string, body: unknown) {
  if (body === undefined || body === null) return undefined;
  if (method === "GET" || method === "HEAD") {
    throw new Error(`A ${method} request carries no body. Use query for parameters, or method POST.`);
  }
  const text = typeof body === "string" ? body : JSON.stringify(body);
  const isJsonText = typeof body !== "string" || (/^\s*[[{]/.test(text) && parseJson(text) !== undefined);
  const type = isJsonText ? "application/json" : "text/plain;charset=utf-8";
  return { text, headers: { "content-type": type, "content-length": String(Buffer.byteLength(text)) } };
}

function toResult(response: OpenedResponse, part: BodyPart, elapsed: number) {
  const { message, status, url, method, redirects } = response;
  const { bytes, isTruncated } = part;
  const headers = shownHeaders(message.headers);
  const type = parseContentType(message.headers["content-type"]);
  const text = bytes.length === 0 ? "" : bodyText(bytes, type, isTruncated);
  const json = text !== undefined && isJson(type.mime) && !isTruncated ? parseJson(text) : undefined;
  const image = imageBlock(type.mime, part);
  const statusText = message.statusMessage ?? "";
  const via = redirects === 0 ? "" : ` after ${redirects} redirect${redirects === 1 ? "" : "s"}`;
  const head = [
    `${status} ${statusText}`.trimEnd(),
    `${method} ${url}${via}, ${elapsed} ms`,
    ...shownInText.filter((name) => name in headers).map((name) => `${name}: ${headers[name]}`),
  ].join("\n");
  const said = json === undefined ? text : (prettyJson(text!) ?? text);
  const described = describeBody(said, type.mime, part, image !== undefined);
  const { content, structuredContent } = answer(`${head}\n\n${described}`, {
    status,
    statusText,
    url,
    redirected: redirects > 0,
    headers,
    body: json === undefined ? (text ?? null) : json,
    bytes: bytes.length,
    truncated: isTruncated,
    elapsed,
  });
  return { content: [...content, ...(image ? [image] : [])], structuredContent, isError: status >= 400 };
}

function describeBody(text: string | undefined, mime: string, part: BodyPart, isShown: boolean): string {
  const { bytes, isTruncated } = part;
  if (text === "") return "No body.";
  const size = `${bytes.length.toLocaleString("en-US")} bytes`;
  if (text === undefined) {
    const known = isTruncated ? `more than ${size}` : size;
    const advice = isShown ? "shown below" : "save it with internal_network_download";
    return `[binary content: ${mime || "type unknown"}, ${known}; ${advice}]`;
  }
  return isTruncated ? `${text}\n[… cut after ${size}; raise maxBytes or download the rest …]` : text;
}

function imageBlock(mime: string, { bytes, isTruncated }: BodyPart) {
  const isShowable = /^image\/(png|jpeg|gif|webp)$/.test(mime) && !isTruncated && bytes.length > 0;
  if (!isShowable || bytes.length > LARGEST_IMAGE) return undefined;
  return { type: "image", data: bytes.toString("base64"), mimeType: mime };
}
