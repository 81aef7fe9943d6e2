import { Agent, request } from "node:http";
import { checkAnswer, headersOf, initialize, initialized, type McpVariant, messageOf } from "./messages.ts";
import type { LoadOptions } from "./server-process.ts";

/** `node load.ts {url, variant, …}`: calls for so long or so often, and tells how often. */
const { url, token, variant, inSession, connections, ...bound } = JSON.parse(
  process.argv[2]!,
) as LoadOptions & { url: string; variant: McpVariant };
const agent = new Agent({ keepAlive: true, maxSockets: connections });
const headers = headersOf(variant, token);
let next = 0;
/** How long each request took, in milliseconds. */
const times: number[] = [];
if (inSession) await beginSession();
const end = performance.now() + (bound.milliseconds ?? Number.POSITIVE_INFINITY);
const { requests = Number.POSITIVE_INFINITY } = bound;

async function client(): Promise<void> {
  while (performance.now() < end && next < requests) {
    const id = next++;
    const begun = performance.now();
    const text = await post(messageOf(variant, id));
    times.push(performance.now() - begun);
    // A long list is looked at now and then; looking takes longer than answering.
    if (variant.method === "tools/call" || id % 64 === 0) checkAnswer(variant, id, text);
  }
}

/** The session that the answer names is that of all requests from then on. */
async function beginSession(): Promise<void> {
  await post(initialize);
  await post(initialized);
}

function post(body: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const outgoing = request(`${url}/mcp`, { method: "POST", headers, agent }, (response) => {
      const session = response.headers["mcp-session-id"];
      if (typeof session === "string") headers["mcp-session-id"] ??= session;
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
times.sort((a, b) => a - b);
process.send?.({ answered: times.length, p50: times[times.length >> 1] });
