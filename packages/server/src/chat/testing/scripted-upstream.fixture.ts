import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { ChatRack, type ChatRackOptions } from "./chat-rack.fixture.ts";

/** Tests read JSON without declaring its shape. */
// biome-ignore lint/suspicious/noExplicitAny: see above.
export type Json = any;
export type Answer = (outgoing: ServerResponse, asked: number, request: Json) => unknown;

/** Starts a rack whose model provider is a small HTTP server that `answer` controls. One rack at a time. */
export class ScriptedUpstream {
  /** The requests that the model was sent, oldest first. */
  readonly requests: Json[] = [];
  #rack: ChatRack | undefined;
  #server: Server | undefined;

  async start(answer: Answer, options: ChatRackOptions = {}): Promise<ChatRack> {
    const server = createServer(async (incoming, outgoing) => {
      const request = await bodyOf(incoming);
      this.requests.push(request);
      outgoing.setHeader("content-type", "text/event-stream");
      await answer(outgoing, this.requests.length - 1, request);
    });
    this.#server = server;
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    // A server that listens on a port has such an address.
    const baseURL = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
    this.#rack = await ChatRack.start({ ...options, provider: { baseURL, ...options.provider } });
    return this.#rack;
  }

  async stop(): Promise<void> {
    await this.#rack?.[Symbol.asyncDispose]();
    this.#server?.closeAllConnections();
    this.#server?.close();
    this.requests.length = 0;
  }
}

async function bodyOf(incoming: IncomingMessage): Promise<Json> {
  let text = "";
  for await (const piece of incoming) text += piece;
  return JSON.parse(text);
}
