import { PassThrough } from "node:stream";

// biome-ignore lint/suspicious/noExplicitAny: what comes back is what the test is about.
type Message = any;

/** The other end of a connection over two streams, in this process, message by message. */
export class StdioPeer {
  readonly streams = { input: new PassThrough(), output: new PassThrough() };
  /** All that has come so far. */
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

  /** Several messages in one line. */
  sendBatch(messages: readonly unknown[]): void {
    this.streams.input.write(`${JSON.stringify(messages)}\n`);
  }

  /** The next message that is the one; those before it are passed over. */
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

  /** Begins with an older version of the protocol. */
  async initialize(protocolVersion = "2025-11-25"): Promise<void> {
    const clientInfo = { name: "t", version: "1" };
    const params = { protocolVersion, capabilities: {}, clientInfo };
    this.send({ id: "initialize", method: "initialize", params });
    await this.next(({ id }) => id === "initialize");
    this.send({ method: "notifications/initialized" });
  }
}

/** The parameters of a request of the newer version. */
export function modernParams(params: object = {}): object {
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": { name: "t", version: "1" },
  };
  return { ...params, _meta };
}
