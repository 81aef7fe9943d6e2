import type { IncomingMessage } from "node:http";
import { HttpError } from "../../http/wire/index.ts";
import {
  acceptsBoth,
  errorText,
  type HeaderList,
  hasEnvelope,
  legacyVersions,
  metaOf,
  modernVersion,
  RpcError,
  type RpcId,
  type RpcMessage,
  readRpc,
  rpcCodes,
} from "../wire/index.ts";
import { batchProblem } from "./batch.ts";

export function checkLegacy(incoming: IncomingMessage): void {
  checkAccept(incoming);
  checkVersion(incoming);
}

export function checkAccept({ headers: { accept } }: IncomingMessage): void {
  if (acceptsBoth(accept)) return;
  throw refused(406, "Not Acceptable: Client must accept both application/json and text/event-stream");
}

export function checkVersion({ headers }: IncomingMessage): void {
  const version = headers["mcp-protocol-version"];
  if (version === undefined || legacyVersions.includes(String(version))) return;
  const supported = legacyVersions.join(", ");
  throw refused(
    400,
    `Bad Request: Unsupported protocol version: ${version} (supported versions: ${supported})`,
  );
}

/** Refuses a body whose header names another charset than UTF-8. */
export function checkCharset({ headers }: IncomingMessage): void {
  const charset = /;\s*charset\s*=\s*"?([^";]*)/i.exec(headers["content-type"] ?? "")?.[1]?.trim();
  if (charset === undefined || /^utf-?8$/i.test(charset)) return;
  const text = `The body came with charset=${charset.slice(0, 100)}, and messages are read as UTF-8 alone. Send it in UTF-8.`;
  throw new HttpError("unsupported_media_type", text);
}

/** The answer to an HTTP request that is refused before it reaches a handler. */
export class Refusal {
  readonly status: number;
  readonly text: string;
  readonly headers: HeaderList;

  constructor(
    status: number,
    { code, message, data }: { readonly code: number; readonly message: string; readonly data?: unknown },
    id: RpcId | null = null,
    headers: HeaderList = [],
  ) {
    this.status = status;
    this.text = errorText(id, { code, message, data });
    this.headers = headers;
  }
}

/** Throws `thrown` again when it is not a refusal. */
export function toRefusal(thrown: unknown, id: RpcId | null): Refusal {
  if (thrown instanceof Refusal) return thrown;
  if (thrown instanceof RpcError) return new Refusal(400, thrown, id);
  if (!(thrown instanceof HttpError)) throw thrown;
  const { code, status, message, headers } = thrown;
  const isUnread = code === "invalid_json" || code === "bad_request";
  const error = { code: isUnread ? rpcCodes.parseError : rpcCodes.invalidRequest, message };
  return new Refusal(status, error, null, Object.entries(headers).flat());
}

export function refused(status: number, message: string): Refusal {
  return new Refusal(status, { code: rpcCodes.refused, message });
}

export function invalid(message: string): RpcError {
  return new RpcError(rpcCodes.invalidRequest, message);
}

/** The legacy versions without batches. */
const versionsWithoutBatches: ReadonlySet<unknown> = new Set(["2025-06-18", "2025-11-25"]);

/** The messages of a batch. Throws when the whole batch is refused. */
export function readBatch(body: readonly unknown[], version: unknown): RpcMessage[] {
  if (versionsWithoutBatches.has(version)) {
    throw invalid(
      `${version} has no batches, and this body is one. Send each message in a request of its own.`,
    );
  }
  if (body.length === 0) throw invalid("Bad Request: empty JSON-RPC batch");
  const problem = batchProblem(body);
  if (problem !== undefined) throw invalid(problem);
  return body.map((value) => {
    const message = readRpc(value);
    if (message === undefined) throw invalid("Bad Request: JSON-RPC batch contains an invalid message");
    if (message.kind !== "response" && hasEnvelope(metaOf(message.params))) {
      const text = "Bad Request: JSON-RPC batches may not contain requests for protocol revision";
      throw invalid(`${text} ${modernVersion} or later`);
    }
    if (message.kind === "request" && message.method === "initialize")
      throw invalid("Invalid Request: Only one initialization request is allowed");
    return message;
  });
}
