import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/**
 * `node provider.ts`: a model provider without latency, for the suite `chat`. The model's name says how it answers:
 * `TOKENS-PAUSE` gives so many tokens, the first at once and the others so many milliseconds apart; with a pause of 0, one
 * in every turn of the event loop.
 */
const words = ["The", " quick", " brown", " fox", " jumps", " over", " the", " lazy", " dog", "."];
const head = {
  id: "chatcmpl-bench",
  object: "chat.completion.chunk",
  created: 1_760_000_000,
  model: "bench",
};

function chunk(delta: object, finish_reason: string | null = null): string {
  const choice = { index: 0, delta, logprobs: null, finish_reason };
  return `data: ${JSON.stringify({ ...head, system_fingerprint: "fp_bench", choices: [choice], usage: null })}\n\n`;
}

const tokens = words.map((content) => chunk({ content }));
const begin = chunk({ role: "assistant", content: "" });
const end = chunk({}, "stop");

function answer(outgoing: ServerResponse, model: string): void {
  const [count = 1, pause = 0] = model.split("-").map(Number);
  outgoing.writeHead(200, { "content-type": "text/event-stream" });
  outgoing.write(begin + tokens[0]);
  let at = 1;
  const next = () => {
    if (outgoing.destroyed) return;
    if (at < count) {
      outgoing.write(tokens[at++ % tokens.length]!);
      if (pause === 0) setImmediate(next);
      else setTimeout(next, pause);
      return;
    }
    const usage = { prompt_tokens: 10, completion_tokens: count, total_tokens: count + 10 };
    const last = `data: ${JSON.stringify({ ...head, choices: [], usage })}\n\n`;
    outgoing.end(`${end}${last}data: [DONE]\n\n`);
  };
  next();
}

const server = createServer((incoming, outgoing) => {
  let text = "";
  incoming.setEncoding("utf8");
  incoming.on("data", (piece) => {
    text += piece;
  });
  incoming.on("end", () => answer(outgoing, JSON.parse(text).model));
});
server.listen({ port: 0, host: "127.0.0.1", backlog: 1024 }, () => {
  // A server that listens on a port has such an address.
  console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
});
