import { createServer, request, type Server } from "node:http";
import type { AddressInfo, Socket } from "node:net";

/** Stands between the browser and a server: passes everything on, until it is cut. */
export class Front {
  readonly url: string;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #isCut = false;

  private constructor(server: Server) {
    const { port } = server.address() as AddressInfo; // A server that listens on a port has such an address.
    this.url = `http://127.0.0.1:${port}`;
    this.#server = server;
    // It goes on listening while it is cut: somebody else could take the port.
    server.on("connection", (socket) => {
      if (this.#isCut) socket.destroy();
      this.#sockets.add(socket);
      socket.once("close", () => this.#sockets.delete(socket));
    });
  }

  static async open(target: string): Promise<Front> {
    const { hostname, port } = new URL(target);
    const server = createServer((incoming, outgoing) => {
      const { url, method, headers } = incoming;
      const passed = request({ hostname, port, path: url, method, headers }, (answer) => {
        outgoing.writeHead(answer.statusCode ?? 500, answer.headers);
        outgoing.flushHeaders();
        answer.pipe(outgoing);
      });
      passed.on("error", () => outgoing.destroy());
      outgoing.on("close", () => passed.destroy());
      incoming.pipe(passed);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return new Front(server);
  }

  /** Breaks every connection, and each new one until it is mended. */
  cut(): void {
    this.#isCut = true;
    for (const socket of this.#sockets) socket.destroy();
  }

  mend(): void {
    this.#isCut = false;
  }

  close(): void {
    this.cut();
    this.#server.close();
  }
}
