import { PassThrough } from "node:stream";

// biome-ignore lint/suspicious/noExplicitAny: what comes back is what the test is about.
type Message = any;

/** The client's end of a stdio connection, over two streams in this process. */
export class StdioPeer {
  readonly streams = { input: new PassThrough(), output: new PassThrough() };
  /** All messages that have arrived so far. */
  readonly messages: Message[] = [];
  #seen = 0;
  #rest = "";
  #wake = () => {};

  constructor() {
    this.streams.output.setEncoding("utf8").on("data", (text: string) => {
      const lines = (this.#rest + text).split("\n");
      this.#rest = lines.pop() ?? "";
      for (const line of lines) this.messages.push(JSON.parse(line));
      this.#wake();
    });
  }

  send(message: object): void {
    this.streams.input.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  }

  /** Sends several messages in one line. */
  sendBatch(messages: readonly unknown[]): void {
    this.streams.input.write(`${JSON.stringify(messages)}\n`);
  }

  /** Resolves to the next message for which `isIt` is true; messages before it are skipped. */
  async next(isIt: (message: Message) => boolean): Promise<Message> {
    for (;;) {
      while (this.#seen < this.messages.length) {
        const message = this.messages[this.#seen++];
        if (isIt(message)) return message;
      }
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  /** Begins the connection with a version of the legacy era. */
  async initialize(protocolVersion = "2025-11-25"): Promise<void> {
    const clientInfo = { name: "t", version: "1" };
    const params = { protocolVersion, capabilities: {}, clientInfo };
    this.send({ id: "initialize", method: "initialize", params });
    await this.next(({ id }) => id === "initialize");
    this.send({ method: "notifications/initialized" });
  }
}

/** The parameters of a request of the modern era. */
export function modernParams(params: object = {}): object {
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": { name: "t", version: "1" },
  };
  return { ...params, _meta };
}
