import { isIPv6 } from "node:net";
import { networkInterfaces } from "node:os";

/** Whether only programs on this machine reach a server that listens on this host. */
export function isOnlyHere(host: string): boolean {
  return host === "localhost" || host.endsWith(".localhost") || /^127\.|^::1$/.test(host);
}

/** Where others on the network find it. An address that stands for all is none that can be typed. */
export function reachOf(host: string, port: string): string[] {
  if (isOnlyHere(host)) return [];
  return addressesOf(host).map((address) => `http://${isIPv6(address) ? `[${address}]` : address}:${port}`);
}

function addressesOf(host: string): string[] {
  if (host !== "0.0.0.0" && host !== "::") return [host];
  const all = Object.values(networkInterfaces()).flatMap((entries) => entries ?? []);
  // A link-local address needs the name of the interface beside it, which URLs cannot have.
  const outside = all.filter(({ internal, address }) => !internal && !address.startsWith("fe80:"));
  return outside.filter(({ family }) => host === "::" || family === "IPv4").map(({ address }) => address);
}
