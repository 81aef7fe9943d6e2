import type { ServerResponse } from "node:http";
import { sendJson } from "./send-json.ts";

/** An answer to a request that reached no server. */
export function sendJsonRpcError(
  outgoing: ServerResponse,
  status: number,
  code: number,
  message: string,
  {
    id = null,
    headers = {},
  }: { readonly id?: string | number | null; readonly headers?: Readonly<Record<string, string>> } = {},
): void {
  sendJson(outgoing, status, { jsonrpc: "2.0", error: { code, message }, id }, headers);
}
