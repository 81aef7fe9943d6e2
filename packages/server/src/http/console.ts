import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from "node:http";
import { extname, join, relative, sep } from "node:path";
import { sendText } from "./wire/index.ts";

/** The folder of the built console: beside the packed program, or in the repository. */
export function findConsole(): string {
  const packed = join(import.meta.dirname, "files");
  const built = join(import.meta.dirname, "..", "..", "..", "console", "dist");
  return existsSync(join(packed, "index.html")) ? packed : built;
}

/** Returns true when it answered the request; false leaves the request to the API. */
export type ConsoleHandler = (incoming: IncomingMessage, outgoing: ServerResponse) => boolean;

/**
 * Serves the built console. Its files are listed once, at the first request, so that no path leads out of the directory
 * and the start costs nothing. Other paths are pages of the console and get `index.html`. Paths of the API are left
 * alone.
 */
export function serveConsole(directory: string): ConsoleHandler {
  let files: ReadonlyMap<string, ConsoleFile> | undefined;
  return (incoming, outgoing) => {
    const { method, url = "/", headers } = incoming;
    if (method !== "GET" && method !== "HEAD") return false;
    const path = url.split(/[?#]/, 1)[0]!;
    if (isReserved(path)) return false;
    files ??= readFiles(directory);
    const found = files.get(path === "/" ? INDEX : path);
    if (found !== undefined) return send(found, incoming, outgoing);
    if (path.startsWith(ASSETS)) {
      return sendPlain(
        outgoing,
        "This file belongs to another version of the console. Load the page anew.\n",
      );
    }
    // Programs that ask for an unknown path get the API's own error.
    if (!headers.accept?.includes("text/html")) return false;
    const index = files.get(INDEX);
    if (index !== undefined) return send(index, incoming, outgoing);
    return path === "/" ? sendPlain(outgoing, NOT_BUILT) : false;
  };
}

const INDEX = "/index.html";
/** Files in this folder have a hash in their name and never change. */
const ASSETS = "/assets/";
const NOT_BUILT =
  "The console is not built. Run `npm run build -w packages/console`, and start the server again.\n";

const reserved = ["/api", "/openai", "/v1", "/mcp", "/metrics", "/healthz", "/readyz", "/openapi.json"];

function isReserved(path: string): boolean {
  return reserved.some((prefix) => path === prefix || path.startsWith(`${prefix}/`));
}

interface ConsoleFile {
  readonly type: string;
  readonly plain: Buffer;
  readonly gzipped: Buffer | undefined;
  readonly etag: string;
  readonly isImmutable: boolean;
}

const types: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
  ".png": "image/png",
  ".woff2": "font/woff2",
};

function readFiles(directory: string): Map<string, ConsoleFile> {
  const files = new Map<string, ConsoleFile>();
  for (const path of listFiles(directory)) {
    const type = types[extname(path)];
    // Skips compressed copies, the build's manifest and unknown files.
    if (type === undefined) continue;
    const plain = readFileSync(path);
    const address = `/${relative(directory, path).split(sep).join("/")}`;
    files.set(address, {
      type,
      plain,
      gzipped: readIfThere(`${path}.gz`),
      etag: `"${createHash("sha256").update(plain).digest("base64url").slice(0, 27)}"`,
      isImmutable: address.startsWith(ASSETS),
    });
  }
  return files;
}

function listFiles(directory: string): string[] {
  try {
    return readdirSync(directory, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name));
  } catch {
    return []; // The console is not built.
  }
}

function readIfThere(path: string): Buffer | undefined {
  try {
    return readFileSync(path);
  } catch {
    return undefined;
  }
}

/** Only scripts of this server run, and data is sent only to this server. */
const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data: blob:",
  "media-src 'self' data: blob:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

function send(file: ConsoleFile, { method, headers }: IncomingMessage, outgoing: ServerResponse): true {
  const common: OutgoingHttpHeaders = {
    "Content-Security-Policy": policy,
    "Cache-Control": file.isImmutable ? "public, max-age=31536000, immutable" : "no-cache",
    ETag: file.etag,
    Vary: "Accept-Encoding",
  };
  if (headers["if-none-match"]?.includes(file.etag)) {
    outgoing.writeHead(304, common).end();
    return true;
  }
  const gzipped = acceptsGzip(headers["accept-encoding"]) ? file.gzipped : undefined;
  const body = gzipped ?? file.plain;
  outgoing.writeHead(200, {
    ...common,
    "Content-Type": file.type,
    "Content-Length": body.length,
    ...(gzipped === undefined ? {} : { "Content-Encoding": "gzip" }),
  });
  outgoing.end(method === "HEAD" ? undefined : body);
  return true;
}

function acceptsGzip(header: string | string[] | undefined): boolean {
  return /\bgzip\b(?!\s*;\s*q=0(?:\.0*)?(?:,|$|\s))/i.test(String(header ?? ""));
}

function sendPlain(outgoing: ServerResponse, text: string): true {
  sendText(outgoing, 404, text, { "Content-Type": "text/plain; charset=utf-8" });
  return true;
}
