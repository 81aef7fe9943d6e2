/** What is measured: which request, in which version of the protocol, with how many tools, over what. */
export interface McpVariant {
  readonly method: "tools/call" | "tools/list";
  readonly era: "modern" | "legacy";
  readonly tools: number;
  readonly transport: "http" | "stdio";
  /** The tool that is called, where it has another name. */
  readonly tool?: string;
}

const modern = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientCapabilities": {},
  "io.modelcontextprotocol/clientInfo": { name: "bench", version: "1" },
};

/** The request as a client sends it. Every call has a number of its own. */
export function messageOf({ method, era, tool = "tool_0" }: McpVariant, id: number): string {
  const _meta = era === "modern" ? { _meta: modern } : {};
  const params = method === "tools/list" ? _meta : { name: tool, arguments: { n: id }, ..._meta };
  return JSON.stringify({ jsonrpc: "2.0", id, method, params });
}

export function headersOf(
  { method, era, tool = "tool_0" }: McpVariant,
  token?: string,
): Record<string, string> {
  return {
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    "content-type": "application/json",
    accept: "application/json, text/event-stream",
    ...(era === "modern" ? { "mcp-protocol-version": "2026-07-28", "mcp-method": method } : {}),
    ...(era === "modern" && method === "tools/call" ? { "mcp-name": tool } : {}),
  };
}

/** Throws when the answer is not the one to this request. */
export function checkAnswer({ method, tools }: McpVariant, id: number, text: string): void {
  const line = text.startsWith("{")
    ? text
    : (text.split("\n").find((part) => part.startsWith("data: ")) ?? "");
  const { id: itsId, result } = JSON.parse(line.slice(line.indexOf("{")));
  const isRight =
    method === "tools/list"
      ? result.tools.length === Math.min(tools, 1000)
      : result.content[0].text === String(id + 1);
  if (itsId !== id || !isRight) throw new Error(`a wrong answer: ${text.slice(0, 200)}`);
}

export const initialized = JSON.stringify({ jsonrpc: "2.0", method: "notifications/initialized" });

export const initialize = JSON.stringify({
  jsonrpc: "2.0",
  id: -1,
  method: "initialize",
  params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "bench", version: "1" } },
});

/** The tools that every contestant has. */
export function definitions(count: number) {
  return Array.from({ length: count }, (_, index) => ({
    name: `tool_${index}`,
    description: `Adds one to a number, as tool ${index}.`,
    inputSchema: { type: "object", properties: { n: { type: "integer" } }, required: ["n"] },
  }));
}
