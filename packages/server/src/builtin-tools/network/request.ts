import {
  acceptedEncodings,
  type BodyPart,
  bodyText,
  createAddressRules,
  decodedBody,
  isJson,
  type OpenedResponse,
  openUrl,
  parseContentType,
  parseJson,
  parseUrl,
  prettyJson,
  readBody,
  requestHeaders,
  shownHeaders,
  withTimeLimit,
} from "../../access/index.ts";
import type { InternalTool, InternalToolContext } from "../../calls/index.ts";

const USUAL_TIMEOUT = 30_000;
const LONGEST_TIMEOUT = 5 * 60_000;
const USUAL_BYTES = 1_048_576;
const MOST_BYTES = 10 * 1_048_576;
const LARGEST_IMAGE = 1_048_576;

const methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/** Headers that tell a model what to do next; the others are in the structured result. */
const tellingHeaders = [
  "content-type",
  "location",
  "retry-after",
  "www-authenticate",
  "allow",
  "link",
  "last-modified",
];

type QueryValue = string | number | boolean | readonly (string | number | boolean)[];

interface RequestArguments {
  readonly url: string;
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, QueryValue>>;
  readonly body?: unknown;
  readonly timeout?: number;
  readonly maxBytes?: number;
  readonly followRedirects?: boolean;
}

export default {
  name: "request",
  description:
    "Sends an HTTP request and gives the answer: status, headers and body. JSON is indented, text decoded by its charset, small images are shown, other binary content is described (use internal_network_download to keep it). A status of 400 or above is reported as an error together with the body. Bodies are cut at `maxBytes`. Only http and https, and only public addresses: localhost, private networks and cloud metadata are refused unless the operator allowed them. Credentials are dropped when a redirect leads to another origin.",
  inputSchema: {
    type: "object",
    properties: {
      url: { type: "string", minLength: 1, description: "A whole address, with http:// or https://." },
      method: { type: "string", enum: methods, default: "GET" },
      headers: { type: "object", additionalProperties: { type: "string" }, description: "Request headers." },
      query: {
        type: "object",
        additionalProperties: {
          anyOf: [
            { type: ["string", "number", "boolean"] },
            { type: "array", items: { type: ["string", "number", "boolean"] } },
          ],
        },
        description: "Parameters to add to the URL; they are encoded for you. A list repeats the parameter.",
      },
      body: {
        description:
          "A string is sent as it is; anything else is sent as JSON. The content-type is chosen to fit unless headers give one.",
      },
      timeout: {
        type: "integer",
        minimum: 1,
        maximum: LONGEST_TIMEOUT,
        default: USUAL_TIMEOUT,
        description: "Milliseconds for the whole exchange, redirects and body included.",
      },
      maxBytes: {
        type: "integer",
        minimum: 1,
        maximum: MOST_BYTES,
        default: USUAL_BYTES,
        description: "Most bytes of the body to read, counted after decompression.",
      },
      followRedirects: { type: "boolean", default: true, description: "Follow up to 5 redirects." },
    },
    required: ["url"],
    additionalProperties: false,
  },
  outputSchema: {
    type: "object",
    properties: {
      status: { type: "integer" },
      statusText: { type: "string" },
      url: { type: "string", description: "Where the answer came from." },
      redirected: { type: "boolean" },
      headers: { type: "object", additionalProperties: { type: "string" } },
      body: { description: "A value for JSON, a string for other text, null for binary content or none." },
      bytes: { type: "integer", description: "How much of the body was read." },
      truncated: { type: "boolean" },
      elapsed: { type: "number", description: "Milliseconds." },
    },
    required: [
      "status",
      "statusText",
      "url",
      "redirected",
      "headers",
      "body",
      "bytes",
      "truncated",
      "elapsed",
    ],
  },
  async handler(args: RequestArguments, ctx: InternalToolContext) {
    const startedAt = performance.now();
    const timeout = Math.min(args.timeout ?? USUAL_TIMEOUT, LONGEST_TIMEOUT);
    const maxBytes = Math.min(args.maxBytes ?? USUAL_BYTES, MOST_BYTES);
    const method = args.method ?? "GET";
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
        followRedirects: args.followRedirects ?? true,
        rules: createAddressRules(ctx.workspace.network.allowPrivate),
        signal,
      });
      return [opened, await incomingBody(opened, maxBytes, signal)] as const;
    });
    return toResult(response, part, Math.round(performance.now() - startedAt));
  },
  metadata: {
    category: "network",
    openWorld: true,
    timeout: LONGEST_TIMEOUT + 5_000,
    tags: ["http", "fetch", "api", "web"],
  },
} satisfies InternalTool;

function withQuery(text: string, query: RequestArguments["query"] = {}): URL {
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
  const type =
    typeof body !== "string" || isJsonDocument(body) ? "application/json" : "text/plain;charset=utf-8";
  return { text, headers: { "content-type": type, "content-length": String(Buffer.byteLength(text)) } };
}

function isJsonDocument(text: string): boolean {
  return /^\s*[[{]/.test(text) && parseJson(text) !== undefined;
}

async function incomingBody(
  { message, method, status }: OpenedResponse,
  maxBytes: number,
  signal: AbortSignal,
): Promise<BodyPart> {
  if (method === "HEAD" || status === 204 || status === 304) {
    message.destroy();
    return { bytes: Buffer.alloc(0), isTruncated: false };
  }
  return readBody(await decodedBody(message), maxBytes, signal);
}

function toResult(
  { message, status, url, method, redirects }: OpenedResponse,
  part: BodyPart,
  elapsed: number,
) {
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
    ...tellingHeaders.filter((name) => name in headers).map((name) => `${name}: ${headers[name]}`),
  ].join("\n");
  const said = json === undefined ? text : (prettyJson(text!) ?? text);
  return {
    content: [
      { type: "text", text: `${head}\n\n${describeBody(said, type.mime, part, image !== undefined)}` },
      ...(image === undefined ? [] : [image]),
    ],
    structuredContent: {
      status,
      statusText,
      url,
      redirected: redirects > 0,
      headers,
      body: json === undefined ? (text ?? null) : json,
      bytes: bytes.length,
      truncated: isTruncated,
      elapsed,
    },
    isError: status >= 400,
  };
}

function describeBody(
  text: string | undefined,
  mime: string,
  { bytes, isTruncated }: BodyPart,
  isShown: boolean,
) {
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
