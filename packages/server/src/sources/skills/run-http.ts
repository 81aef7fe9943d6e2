import type { ToolContext } from "@toolrack/core";
import { createAddressRules } from "../../internal-tools/network/support/address-rules.ts";
import {
  bodyText,
  isJson,
  parseContentType,
  parseJson,
} from "../../internal-tools/network/support/body-text.ts";
import { requestHeaders } from "../../internal-tools/network/support/headers.ts";
import { type OpenedResponse, openUrl } from "../../internal-tools/network/support/open-url.ts";
import {
  acceptedEncodings,
  type BodyPart,
  decodedBody,
  readBody,
} from "../../internal-tools/network/support/read-body.ts";
import { withTimeLimit } from "../../internal-tools/network/support/time-limit.ts";
import { asForm, fillRequest, type HttpTemplate, readHttpTemplate } from "./http-request.ts";
import type { ReadyTool, SkillSurroundings, ToolRunner } from "./run-environment.ts";
import {
  fillSecrets,
  fillSecretsWithin,
  fillSecretValues,
  hasSecretWithin,
  type ReadSecret,
} from "./secret-references.ts";
import { skillResult } from "./skill-result.ts";

export const usualHttpTimeout = 30_000;
const GRACE = 5_000;
const USUAL_BYTES = 1024 * 1024;
/** Of the body of a refusal: enough to see what the service complains of. */
const HEAD = 2_000;
const LARGEST_IMAGE = 1024 * 1024;

/** A tool that is one HTTP request. Throws `UsageError` when it can never be sent. */
export function httpRunner({ skill, tool, usage }: ReadyTool, surroundings: SkillSurroundings): ToolRunner {
  const template = readHttpTemplate(tool.endpoint, tool.method, usage);
  // What the operator opened for skills of their own is not open to one from elsewhere.
  const rules = createAddressRules(skill.trusted ? surroundings.allowPrivate : []);
  const { timeout = usualHttpTimeout, maxBytes = USUAL_BYTES } = usage.settings;
  const readSecret = skill.trusted ? surroundings.readSecret : refuseSecrets(skill.name);
  return async (context: ToolContext) => {
    const { arguments: fixed, defaults } = usage.settings;
    // Only what the operator wrote may refer to secrets.
    const input = { ...defaults, ...context.input, ...(await fillSecretsWithin(fixed, readSecret)) };
    const request = await prepare(template, input, readSecret);
    const host = new URL(request.url).host;
    // The call itself has the tool's time limit; this one is for what would not heed it.
    return withTimeLimit(host, timeout + GRACE, context.signal, async (signal) => {
      const opened = await openUrl({ ...request, method: template.method, rules, signal });
      return toResult(template, opened, await readAnswer(opened, maxBytes, signal));
    });
  };
}

async function prepare(
  template: HttpTemplate,
  input: Readonly<Record<string, unknown>>,
  readSecret: ReadSecret,
) {
  const { endpoint, usage } = template;
  const filled = fillRequest(template, input);
  const fixed = requestHeaders(await fillSecretValues(usage.settings.headers, readSecret));
  const isForm = (fixed["content-type"] ?? "").startsWith("application/x-www-form-urlencoded");
  const body = filled.body !== undefined && isForm ? asForm(filled.body) : filled.body;
  const hasSecrets = hasSecretWithin([endpoint, usage.settings.headers, usage.settings.arguments]);
  return {
    url: await fillSecrets(filled.url, readSecret, encodeURIComponent),
    headers: {
      accept: "application/json, text/*;q=0.9, */*;q=0.8",
      "accept-encoding": acceptedEncodings,
      "user-agent": "toolrack",
      ...(body === undefined
        ? {}
        : { "content-type": "application/json", "content-length": String(Buffer.byteLength(body)) }),
      // What the caller says comes first: it cannot replace what the operator wrote.
      ...requestHeaders(filled.headers),
      ...fixed,
    },
    body,
    // Wherever a redirect leads, a secret of this service has no business.
    followRedirects: !hasSecrets,
  };
}

async function readAnswer(
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

/** Speaks of the endpoint as it was written: the address that was requested may carry secrets. */
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
  return `${said}: ${head.length > HEAD ? `${head.slice(0, HEAD)}… [cut]` : head}`;
}

function originOf(location: string, endpoint: string): string {
  return URL.parse(location, endpoint.replace(/\{+[^}]*\}+/g, "x"))?.origin ?? "another address";
}

function binary(mime: string, { bytes, isTruncated }: BodyPart): unknown {
  const size = `${isTruncated ? "more than " : ""}${bytes.length.toLocaleString("en-US")} bytes`;
  const isImage = /^image\/(png|jpeg|gif|webp)$/.test(mime) && !isTruncated && bytes.length <= LARGEST_IMAGE;
  if (!isImage) return `[binary content: ${mime || "type unknown"}, ${size}]`;
  return { content: [{ type: "image", data: bytes.toString("base64"), mimeType: mime }] };
}

function refuseSecrets(skill: string): ReadSecret {
  return () =>
    Promise.reject(
      new Error(
        `The skill "${skill}" came from elsewhere and is given no secrets until the operator trusts it. Trust it with: toolrack skills trust "${skill}"`,
      ),
    );
}
