import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createInterface } from "node:readline";
import { definitions } from "./messages.ts";

/**
 * The least that answers: reads the JSON, looks the tool up in a Map, runs it, writes the JSON; a list was written
 * once. It checks nothing, knows nobody and keeps nothing. `node floor.ts http|stdio COUNT`.
 */
const [transport, count] = process.argv.slice(2);
const list = definitions(Number(count));
const tools = new Map(list.map(({ name }) => [name, async ({ n }: { n: number }) => String(n + 1)]));
const listed = JSON.stringify({ tools: list.slice(0, 1000) });

async function answer(text: string): Promise<string | undefined> {
  const { id, method, params } = JSON.parse(text);
  if (id === undefined) return undefined;
  if (method === "tools/list") return `{"jsonrpc":"2.0","id":${id},"result":${listed}}`;
  if (method !== "tools/call") return JSON.stringify({ jsonrpc: "2.0", id, ...others(method) });
  const content = [{ type: "text", text: await tools.get(params.name)!(params.arguments) }];
  return JSON.stringify({ jsonrpc: "2.0", id, result: { content } });
}

/** What gateways ask before they pass calls on. */
function others(method: string): object {
  if (method !== "initialize") return { error: { code: -32601, message: `There is no method ${method}.` } };
  const serverInfo = { name: "floor", version: "1" };
  return { result: { protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo } };
}

if (transport === "stdio") {
  createInterface(process.stdin).on("line", async (line) => {
    const text = await answer(line);
    if (text !== undefined) process.stdout.write(`${text}\n`);
  });
} else {
  const server = createServer((incoming, outgoing) => {
    let text = "";
    incoming.setEncoding("utf8").on("data", (chunk) => {
      text += chunk;
    });
    incoming.on("end", async () => {
      const body = (await answer(text)) ?? "";
      outgoing.writeHead(200, {
        "content-type": "application/json",
        "content-length": Buffer.byteLength(body),
      });
      outgoing.end(body);
    });
  });
  server.listen(0, "127.0.0.1", () => {
    // A server that listens on a port has such an address.
    console.log(JSON.stringify({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }));
  });
}
