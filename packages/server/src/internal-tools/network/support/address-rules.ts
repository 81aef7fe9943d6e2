import { BlockList } from "node:net";
import ipaddr from "ipaddr.js";

type Address = ipaddr.IPv4 | ipaddr.IPv6;

/** Public by their number, yet a cloud's way to hand its machines their credentials. */
const metadataAddresses = new Set(["168.63.129.16"]);

/**
 * The old way to write IPv4 inside IPv6, `::8.8.8.8`. No public host has such an address, and what a system makes of
 * one is its own affair. `ipaddr.js` takes it for the IPv4 address, so it is judged as it is written.
 */
const compatible = new BlockList();
compatible.addSubnet("::", 96, "ipv6");

/** Which addresses a request may reach. */
export interface AddressRules {
  /** Says why the address is refused, or nothing when it may be reached. `host` is the name it was found under. */
  refusal(host: string, address: string): string | undefined;
}

/**
 * Only addresses of the public Internet, and those that the operator allowed: a host name, `*.suffix` for everything
 * below a name, a single address, or a range such as `10.0.0.0/8`. An entry that is none of these allows nothing.
 */
export function createAddressRules(allowPrivate: readonly string[]): AddressRules {
  const entries = allowPrivate.map(parseEntry);
  return {
    refusal(host, address) {
      const parsed = parseAddress(address);
      if (parsed === undefined) return "it is not an IP address";
      const kind = forbiddenKind(parsed) ?? compatibleKind(address);
      if (kind === undefined) return undefined;
      const name = plainHost(host);
      return entries.some((allows) => allows(name, parsed)) ? undefined : kind;
    },
  };
}

/** A host as it is compared: lower case, without brackets and without the dot of the root. */
export function plainHost(host: string): string {
  return host
    .toLowerCase()
    .replace(/^\[|\]$/g, "")
    .replace(/\.$/, "");
}

type Entry = (host: string, address: Address) => boolean;

function parseEntry(text: string): Entry {
  const entry = plainHost(text.trim());
  if (ipaddr.isValidCIDR(entry)) {
    const [network, bits] = ipaddr.parseCIDR(entry);
    return (_host, address) => address.kind() === network.kind() && address.match(network, bits);
  }
  const single = parseAddress(entry);
  if (single !== undefined) return (_host, address) => address.toString() === single.toString();
  if (entry.startsWith("*."))
    return (host) => host.endsWith(entry.slice(1)) && host.length > entry.length - 1;
  return (host) => host === entry;
}

/** IPv4 inside IPv6 comes out as IPv4, so that no spelling of an address escapes the rules for it. */
function parseAddress(text: string): Address | undefined {
  const bare = text.replace(/%.*$/, "");
  if (!ipaddr.IPv4.isValidFourPartDecimal(bare) && !ipaddr.IPv6.isValid(bare)) return undefined;
  return ipaddr.process(bare);
}

/** What makes an address off limits. Everything that is not plainly public is. */
function forbiddenKind(address: Address): string | undefined {
  if (metadataAddresses.has(address.toString())) return "it is a cloud metadata address";
  const range: string = address.range();
  if (range === "unicast") return undefined;
  // A translator for IPv6-only networks: what counts is the IPv4 address it leads to.
  if (range === "rfc6052" && address instanceof ipaddr.IPv6) return forbiddenKind(embeddedAddress(address));
  return `it is ${kindNames[range] ?? `in the range "${range}"`}`;
}

function compatibleKind(address: string): string | undefined {
  const isCompatible = compatible.check(address.replace(/%.*$/, ""), "ipv6");
  return isCompatible ? "it is an IPv4-compatible IPv6 address, which is reserved" : undefined;
}

function embeddedAddress(address: ipaddr.IPv6): ipaddr.IPv4 {
  return new ipaddr.IPv4(address.toByteArray().slice(12));
}

const kindNames: Readonly<Record<string, string>> = {
  loopback: "a loopback address",
  private: "a private address",
  uniqueLocal: "a private address",
  linkLocal: "a link-local address, where clouds serve their metadata",
  carrierGradeNat: "an address of a carrier's inner network",
  multicast: "a multicast address",
  broadcast: "a broadcast address",
  unspecified: "the unspecified address, which means this machine",
  reserved: "a reserved address",
};
