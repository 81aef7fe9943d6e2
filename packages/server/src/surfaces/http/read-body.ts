import type { IncomingMessage } from "node:http";
import { HttpError } from "./http-error.ts";

const decoder = new TextDecoder("utf-8", { fatal: true });

/** The JSON of a request's body; `undefined` when it has none. Counts while it reads and never holds more than `limit`. */
export async function readBody(incoming: IncomingMessage, limit: number): Promise<unknown> {
  if (!hasBody(incoming)) return undefined;
  checkType(incoming);
  const bytes = await collect(incoming, limit);
  if (bytes.length === 0) return undefined;
  try {
    return JSON.parse(decoder.decode(bytes));
  } catch (thrown) {
    const problem = thrown instanceof Error ? thrown.message : String(thrown);
    throw new HttpError("invalid_json", `The body is not JSON in UTF-8: ${problem}.`);
  }
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers["transfer-encoding"] !== undefined || (headers["content-length"] ?? "0").trim() !== "0";
}

function checkType({ headers }: IncomingMessage): void {
  const type = (headers["content-type"] ?? "").split(";")[0]!.trim().toLowerCase();
  if (type !== "application/json" && !/^application\/[\w.-]+\+json$/.test(type)) {
    const came = type === "" ? "none is given" : `it is ${type}`;
    throw new HttpError("unsupported_media_type", `Content-Type must be application/json; ${came}.`);
  }
  const encoding = headers["content-encoding"] ?? "identity";
  if (encoding.toLowerCase() !== "identity") {
    const advice = `The body came with Content-Encoding: ${encoding}, which this server does not read. Send it as it is, without that header.`;
    throw new HttpError("unsupported_media_type", advice, { headers: { "Accept-Encoding": "identity" } });
  }
}

function collect(incoming: IncomingMessage, limit: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const refuse = () => {
      stop();
      const advice = `The body is larger than ${limit} bytes, the most that this server takes.`;
      reject(new HttpError("payload_too_large", advice, { details: { limit } }));
    };
    const onData = (chunk: Buffer) => {
      size += chunk.length;
      if (size > limit) refuse();
      else chunks.push(chunk);
    };
    const onEnd = () => {
      stop();
      resolve(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, size));
    };
    const onBreak = () => {
      stop();
      reject(new HttpError("bad_request", "The connection broke before the whole body had come."));
    };
    const stop = () => {
      incoming.off("data", onData).off("end", onEnd).off("error", onBreak).off("close", onBreak);
      // What is left of a body that nobody reads is let through, so that the answer reaches who still sends.
      incoming.on("error", () => {});
    };
    if (Number(incoming.headers["content-length"] ?? 0) > limit) return refuse();
    incoming.on("data", onData).on("end", onEnd).on("error", onBreak).on("close", onBreak);
  });
}
