import { Agent, request } from "node:http";
import { checkAnswer, headersOf, type McpVariant, messageOf } from "./messages.ts";

/** `node load.ts {url, token, variant, connections, milliseconds}`: calls for so long, and tells how often. */
const { url, token, variant, connections, milliseconds } = JSON.parse(process.argv[2]!) as {
  url: string;
  token: string;
  variant: McpVariant;
  connections: number;
  milliseconds: number;
};
const agent = new Agent({ keepAlive: true, maxSockets: connections });
const headers = headersOf(variant, token);
let next = 0;
let answered = 0;
const end = performance.now() + milliseconds;

async function client(): Promise<void> {
  while (performance.now() < end) {
    const id = next++;
    const text = await post(messageOf(variant, id));
    // A long list is looked at now and then; looking takes longer than answering.
    if (variant.method === "tools/call" || id % 64 === 0) checkAnswer(variant, id, text);
    answered++;
  }
}

function post(body: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const outgoing = request(`${url}/mcp`, { method: "POST", headers, agent }, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk) => chunks.push(chunk));
      response.on("end", () => resolve(Buffer.concat(chunks).toString()));
      response.on("error", reject);
    });
    outgoing.on("error", reject);
    outgoing.end(body);
  });
}

await Promise.all(Array.from({ length: connections }, client));
agent.destroy();
process.send?.({ answered });
