import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { Grant } from "../../../access/grants.ts";
import type { Mount } from "../../../http/wire/route.ts";

/** Serves one mount alone, and gives every request this grant. */
export async function serveMount(mount: Mount, grant: Grant) {
  const server = createServer((incoming, outgoing) => void mount.handle(incoming, outgoing, grant));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo; // A server that listens on a port has such an address.
  return {
    url: `http://127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      await mount.close?.();
      server.closeAllConnections();
      server.close();
    },
  };
}
