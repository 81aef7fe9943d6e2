import type { RpcAnswer, ServedRack } from "./served-rack.ts";

/** A session of a client of the legacy era, to which a test sends single messages. */
export interface TestSession {
  readonly headers: Record<string, string>;
  post(message: object, headers?: Record<string, string>): Promise<RpcAnswer>;
  /** Sends a message and returns all messages of the answer, unchanged. */
  postAll(message: object): Promise<{ readonly status: number; readonly messages: readonly unknown[] }>;
  /** Opens the stream of messages that belong to no request. */
  get(): Promise<Response>;
  end(): Promise<number>;
}

export async function openLegacySession(
  rack: ServedRack,
  { protocolVersion = "2025-11-25", path = "/mcp", url = rack.serving.url, token = rack.token } = {},
): Promise<TestSession> {
  const send = (method: string, headers: Record<string, string>, message?: object) =>
    fetch(new URL(path, url), {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        ...headers,
      },
      ...(message === undefined ? {} : { body: JSON.stringify(message) }),
    });
  const clientInfo = { name: "t", version: "1" };
  const params = { protocolVersion, capabilities: { elicitation: {} }, clientInfo };
  const opened = await send("POST", {}, { jsonrpc: "2.0", id: "i", method: "initialize", params });
  await opened.text();
  const headers = {
    "mcp-session-id": opened.headers.get("mcp-session-id") ?? "",
    "mcp-protocol-version": protocolVersion,
  };
  await send("POST", headers, { jsonrpc: "2.0", method: "notifications/initialized" });
  return {
    headers,
    post: (message, others = {}) =>
      rack.post("legacy", message, { token, path, headers: { ...headers, ...others } }),
    async postAll(message) {
      const response = await send("POST", headers, message);
      const text = await response.text();
      const isStream = response.headers.get("content-type")?.includes("event-stream") === true;
      const lines = text.split("\n").filter((line) => line.startsWith("data: "));
      const texts = isStream ? lines.map((line) => line.slice("data: ".length)) : text === "" ? [] : [text];
      return { status: response.status, messages: texts.flatMap((one) => JSON.parse(one)) };
    },
    get: () => send("GET", headers),
    end: async () => (await send("DELETE", headers)).status,
  };
}
