import { stat } from "node:fs/promises";
import { join } from "node:path";
import {
  alreadyThere,
  bodyText,
  createAddressRules,
  decodedBody,
  downloadName,
  guardWrite,
  type OpenedResponse,
  openUrl,
  parseContentType,
  parseUrl,
  readBody,
  requestHeaders,
  saveStream,
  tooLarge,
  withTimeLimit,
} from "../../access/index.ts";
import type { InternalToolContext } from "../../calls/index.ts";
import * as s from "../../helpers/schema.ts";
import { confinePath, showPath } from "../paths.ts";
import { answer, defineTool } from "../tool-definition.ts";

const USUAL_BYTES = 100 * 1_048_576;
const USUAL_TIMEOUT = 10 * 60_000;
const LONGEST_TIMEOUT = 60 * 60_000;
const PROGRESS_EVERY_MS = 100;

export default defineTool({
  name: "download",
  description:
    "Downloads a URL into a file of the workspace and gives the path, size, content type and SHA-256. The file appears only when it is complete; a failed, cancelled or oversized download leaves nothing behind. Missing directories are made. Without `path`, or when `path` is a directory, the file is named as the server calls it. Only http and https, and only public addresses unless the operator allowed others; redirects are followed.",
  input: {
    url: s.text("A whole address, with http:// or https://.", { minLength: 1 }),
    "path?": s.text(
      "File to write, or a directory (end it with / if it does not exist yet). Default: the workspace.",
      { minLength: 1 },
    ),
    overwrite: s.boolean("Replace a file that is already there.", { default: false }),
    maxBytes: s.integer("Largest file to accept; anything larger is refused.", {
      minimum: 1,
      default: USUAL_BYTES,
    }),
    "headers?": s.map(s.text(), "Request headers."),
    timeout: s.integer("Milliseconds for the whole download.", {
      minimum: 1,
      maximum: LONGEST_TIMEOUT,
      default: USUAL_TIMEOUT,
    }),
  },
  isClosed: true,
  async handler({ path = "./", overwrite, maxBytes, timeout, ...args }, ctx) {
    const startedAt = performance.now();
    // Checked first, so that a refused path costs no request.
    const place = await findPlace(path, ctx);
    if (!place.isDirectory) {
      if (!overwrite) await refuseExisting(place.path);
      await guardWrite(ctx, place.path, { shown: await showPath(ctx.workspace, place.path) });
    }
    return withTimeLimit(parseUrl(args.url).host, timeout, ctx.signal, async (signal) => {
      const response = await openUrl({
        url: args.url,
        method: "GET",
        headers: {
          accept: "*/*",
          "accept-encoding": "identity",
          "user-agent": "toolrack",
          ...requestHeaders(args.headers),
        },
        followRedirects: true,
        rules: createAddressRules(ctx.workspace.network.allowPrivate),
        signal,
      });
      if (response.status < 200 || response.status >= 300) return refusedByServer(response, signal);
      const { message, url } = response;
      try {
        const name = downloadName(message.headers["content-disposition"], url);
        const target = await confinePath(
          ctx.workspace,
          place.isDirectory ? join(place.path, name) : place.path,
        );
        if (!overwrite) await refuseExisting(target);
        const shown = await showPath(ctx.workspace, target);
        if (place.isDirectory) await guardWrite(ctx, target, { shown });
        const announced = announcedSize(response);
        if (announced !== undefined && announced > maxBytes) throw tooLarge(maxBytes);
        const onProgress = progressReporter(ctx, announced);
        const options = { target, overwrite, maxBytes, onProgress, signal };
        const saved = await saveStream(
          await decodedBody(message, message.headers["content-encoding"]),
          options,
        );
        const contentType = message.headers["content-type"] ?? null;
        const elapsed = Math.round(performance.now() - startedAt);
        const text = `Saved ${saved.bytes.toLocaleString("en-US")} bytes to ${shown} in ${elapsed} ms.\nfrom: ${url}\ncontent-type: ${contentType ?? "not given"}\nsha256: ${saved.sha256}`;
        const redirected = response.redirects > 0;
        return answer(text, { path: shown, ...saved, contentType, url, redirected, elapsed });
      } catch (error) {
        message.destroy();
        throw error;
      }
    });
  },
  metadata: {
    category: "network",
    dangerous: true,
    confirm: "Download the URL below and save it as a file of the workspace?",
    openWorld: true,
    timeout: LONGEST_TIMEOUT + 5_000,
    tags: ["http", "file", "save"],
  },
});

/** Checks the given path. For a directory, the caller must check it again with the file's name. */
async function findPlace(given: string, { workspace }: InternalToolContext) {
  const path = await confinePath(workspace, given);
  const found = await stat(path).catch(() => undefined);
  return { path, isDirectory: /[/\\]$/.test(given) || found?.isDirectory() === true };
}

async function refuseExisting(target: string): Promise<void> {
  const found = await stat(target).catch(() => undefined);
  if (found !== undefined) throw alreadyThere(target);
}

/** The size that the server announced, unless the content is encoded. */
function announcedSize({ message }: OpenedResponse): number | undefined {
  const { "content-length": length, "content-encoding": encoding } = message.headers;
  if (length === undefined || (encoding !== undefined && encoding !== "identity")) return undefined;
  return Number(length);
}

/** Returns a function that reports progress, at most once in `PROGRESS_EVERY_MS`. */
function progressReporter(ctx: InternalToolContext, total: number | undefined): (bytes: number) => void {
  let reportedAt = 0;
  return (bytes) => {
    const now = performance.now();
    if (now - reportedAt < PROGRESS_EVERY_MS && bytes !== total) return;
    reportedAt = now;
    ctx.progress({ progress: bytes, ...(total === undefined ? {} : { total }), message: `${bytes} bytes` });
  };
}

async function refusedByServer({ message, status, url }: OpenedResponse, signal: AbortSignal) {
  const { bytes, isTruncated } = await readBody(
    await decodedBody(message, message.headers["content-encoding"]),
    4_096,
    signal,
  );
  const body = bodyText(bytes, parseContentType(message.headers["content-type"]), isTruncated) ?? "";
  const head = `${url} answered ${status} ${message.statusMessage ?? ""}`.trimEnd();
  const text = `${head}, so nothing was saved.${body === "" ? "" : `\n\n${body}`}`;
  return { ...answer(text, { status, url, body }), isError: true };
}
