import { type AddressInfo, createServer } from "node:net";

/** For programs that cannot tell which port they were given: one that was free a moment ago. */
export function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const probe = createServer().listen(0, "127.0.0.1", () => {
      const { port } = probe.address() as AddressInfo; // A server that listens on a port has such an address.
      probe.close(() => resolve(port));
    });
  });
}
