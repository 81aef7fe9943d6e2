import type { ServerResponse } from "node:http";
import { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { joinProtocol } from "../../helpers/server-address.ts";
import type { Caller } from "./caller.ts";
import { refused } from "./http-checks.ts";
import type { McpServing } from "./mcp-services.ts";
import { StdioConnection } from "./stdio.ts";

/** How long a client may take to close its side after the last line to it, in milliseconds. */
const CLOSE_TIMEOUT = 1_000;

/**
 * The stdio clients that share this server: each is a `toolrack mcp` that passes its lines on over a connection of its
 * own instead of opening the workspace a second time.
 */
export class JoinedClients {
  readonly #serving: McpServing;
  readonly #connections = new Set<StdioConnection>();
  #isClosed = false;

  constructor(serving: McpServing) {
    this.#serving = serving;
  }

  /**
   * Takes the connection over from HTTP, and serves the client on it until either side ends it. Throws when the server
   * is stopping.
   */
  add(outgoing: ServerResponse, stream: Duplex, caller: Caller): void {
    if (this.#isClosed) throw refused(503, "The server is stopping and takes no new clients.");
    if (stream instanceof Socket) outgoing.detachSocket(stream);
    stream.write(
      `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${joinProtocol}\r\n\r\n`,
    );
    const connection = new StdioConnection(this.#serving, caller, { input: stream, output: stream });
    this.#connections.add(connection);
    void connection.closed.then(() => {
      this.#connections.delete(connection);
      stream.end();
      const timer = setTimeout(() => stream.destroy(), CLOSE_TIMEOUT);
      stream.once("close", () => clearTimeout(timer)).resume();
    });
  }

  /** Ends all connections, each after a moment for answers to its open requests. The clients go on by themselves. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([...this.#connections].map((connection) => connection.close()));
  }
}
