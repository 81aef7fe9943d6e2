import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";

export interface TestServer extends AsyncDisposable {
  readonly port: number;
  /** `http://127.0.0.1:PORT`. */
  readonly origin: string;
  connections(): Promise<number>;
}

/** A real server on a free port of the loopback interface. For tests. */
export async function openTestServer(listener: RequestListener): Promise<TestServer> {
  const server = createServer(listener);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    port,
    origin: `http://127.0.0.1:${port}`,
    connections: () => new Promise((resolve) => server.getConnections((_error, count) => resolve(count))),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}
