import { Agent, createServer, request } from "node:http";
import type { AddressInfo } from "node:net";

/**
 * `node proxy.ts URL`: copies every request to the URL, and its answer back, for comparison in the suite `chat`. It keeps
 * its connections to the URL open, whatever its clients do with theirs.
 */
const upstream = new URL(process.argv[2]!);
const agent = new Agent({ keepAlive: true });

const server = createServer((incoming, outgoing) => {
  const { method, url: path } = incoming;
  const { connection: _, ...headers } = incoming.headers;
  const { hostname, port } = upstream;
  const asked = request({ hostname, port, path, method, headers, agent }, (answer) => {
    const { connection: _, "keep-alive": __, ...told } = answer.headers;
    outgoing.writeHead(answer.statusCode ?? 502, told);
    answer.pipe(outgoing);
  });
  asked.on("error", () => outgoing.destroy());
  incoming.pipe(asked);
});
server.listen({ port: 0, host: "127.0.0.1", backlog: 1024 }, () => {
  // A server that listens on a port has such an address.
  console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
});
