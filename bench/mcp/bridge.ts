import { spawn } from "node:child_process";
import { Agent, createServer, request, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { createInterface } from "node:readline";
import { initialize } from "./messages.ts";

/**
 * The least that brings HTTP to a server on stdio, or to the one at an address: reads the JSON, gives the request an id of
 * its own, passes it on, and gives the answer back under the first one. It checks nothing, knows nobody and keeps
 * nothing. `node bridge.ts URL` or `node bridge.ts PROGRAM WORDS…`.
 */
const [behind, ...words] = process.argv.slice(2);
const agent = new Agent({ keepAlive: true });
const waiting = new Map<number, { readonly id: unknown; readonly outgoing: ServerResponse }>();
let next = 0;

const pass = words.length > 0 ? passToProcess([behind!, ...words]) : passTo(behind!);

/** Starts the server and returns a function that sends it a message. */
function passToProcess(program: readonly string[]): (text: string) => void {
  const upstream = spawn(process.execPath, program, { stdio: ["pipe", "pipe", "inherit"] });
  upstream.stdin.write(`${initialize}\n`);
  upstream.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", method: "notifications/initialized" })}\n`);
  createInterface(upstream.stdout).on("line", giveBack);
  return (text) => upstream.stdin.write(`${text}\n`);
}

function passTo(url: string): (text: string) => void {
  const headers = { "content-type": "application/json", accept: "application/json, text/event-stream" };
  return (text) => {
    const outgoing = request(`${url}/mcp`, { method: "POST", headers, agent }, (response) => {
      let answer = "";
      response.setEncoding("utf8").on("data", (chunk) => {
        answer += chunk;
      });
      response.on("end", () => giveBack(answer));
    });
    outgoing.end(text);
  };
}

function giveBack(line: string): void {
  const message = JSON.parse(line);
  const asked = waiting.get(message.id);
  if (asked === undefined) return;
  waiting.delete(message.id);
  message.id = asked.id;
  const body = JSON.stringify(message);
  asked.outgoing.writeHead(200, {
    "content-type": "application/json",
    "content-length": Buffer.byteLength(body),
  });
  asked.outgoing.end(body);
}

const server = createServer((incoming, outgoing) => {
  let text = "";
  incoming.setEncoding("utf8").on("data", (chunk) => {
    text += chunk;
  });
  incoming.on("end", () => {
    const message = JSON.parse(text);
    const id = next++;
    waiting.set(id, { id: message.id, outgoing });
    message.id = id;
    pass(JSON.stringify(message));
  });
});
server.listen(0, "127.0.0.1", () => {
  // A server that listens on a port has such an address.
  console.log(JSON.stringify({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }));
});
