import type { ServerResponse } from "node:http";

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
  const body = JSON.stringify({ jsonrpc: "2.0", error: { code, message }, id });
  outgoing.writeHead(status, {
    "Content-Type": "application/json",
    "Content-Length": Buffer.byteLength(body),
    ...headers,
  });
  outgoing.end(body);
}
