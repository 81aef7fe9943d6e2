import dns from "node:dns";
import { BlockList, type LookupFunction } from "node:net";
import ipaddr from "ipaddr.js";
import { plainHost } from "../../helpers/index.ts";

type Address = ipaddr.IPv4 | ipaddr.IPv6;

/** Addresses in a public range at which a cloud gives its machines their credentials. */
const metadataAddresses = new Set(["168.63.129.16"]);

/**
 * The old way to write IPv4 inside IPv6, `::8.8.8.8`. No public host has such an address, and operating
 * systems differ in where it leads. `ipaddr.js` turns it into the IPv4 address, so the address is checked
 * here as it is written.
 */
const compatible = new BlockList();
compatible.addSubnet("::", 96, "ipv6");

/** Which addresses a request may reach. */
export interface AddressRules {
  /** Says why the address is refused, or nothing when it may be reached. `host` is the name it was found under. */
  refusal(host: string, address: string): string | undefined;
}

/**
 * Allows addresses of the public Internet, and those that the operator allowed: a host name, `*.suffix` for everything
 * below a name, a single address, or a range such as `10.0.0.0/8`. An entry of any other form allows nothing.
 */
export function createAddressRules(allowPrivate: readonly string[]): AddressRules {
  const entries = allowPrivate.map(parseEntry);
  return {
    refusal(host, address) {
      const parsed = parseAddress(address);
      if (parsed === undefined) return "it is not an IP address";
      const isCompatible = compatible.check(address.replace(/%.*$/, ""), "ipv6");
      const reserved = "it is an IPv4-compatible IPv6 address, which is reserved";
      const kind = forbiddenKind(parsed) ?? (isCompatible ? reserved : undefined);
      if (kind === undefined) return undefined;
      const name = plainHost(host);
      return entries.some((allows) => allows(name, parsed)) ? undefined : kind;
    },
  };
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

/** Turns IPv4 inside IPv6 into IPv4, so that no spelling of an address escapes the rules for it. */
function parseAddress(text: string): Address | undefined {
  const bare = text.replace(/%.*$/, "");
  if (!ipaddr.IPv4.isValidFourPartDecimal(bare) && !ipaddr.IPv6.isValid(bare)) return undefined;
  return ipaddr.process(bare);
}

/** Why an address may not be reached. Everything that is not plainly public is forbidden. */
function forbiddenKind(address: Address): string | undefined {
  if (metadataAddresses.has(address.toString())) return "it is a cloud metadata address";
  const range: string = address.range();
  if (range === "unicast") return undefined;
  // The address of a translator for IPv6-only networks: the IPv4 address that it leads to is checked.
  if (range === "rfc6052") return forbiddenKind(new ipaddr.IPv4(address.toByteArray().slice(12)));
  return `it is ${kindNames[range] ?? `in the range "${range}"`}`;
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

/** Thrown when a host may not be reached. The message is meant for the model. */
export class AddressRefusedError extends Error {
  override name = "AddressRefusedError";

  constructor(host: string, address: string, reason: string) {
    const where = host === address ? address : `${host} (${address})`;
    super(
      `Refused to connect to ${where}: ${reason}. Only public addresses can be reached; the operator can allow this host in network.allowPrivate of the workspace's config.`,
    );
  }
}

/**
 * Returns a lookup function that resolves a name only to addresses that may be reached. The connection goes
 * to an address that the function returns, so a name that changes its address after the check gains nothing.
 */
export function guardedLookup(rules: AddressRules): LookupFunction {
  return (hostname, options, callback) => {
    dns.lookup(hostname, { ...options, all: true }, (error, addresses) => {
      if (error !== null) return callback(error, "");
      const allowed = addresses.filter(({ address }) => rules.refusal(hostname, address) === undefined);
      const first = allowed[0];
      if (first === undefined) {
        const address = addresses[0]?.address ?? "no address";
        const reason = rules.refusal(hostname, address) ?? "it has no address";
        return callback(new AddressRefusedError(hostname, address, reason), "");
      }
      if (options.all) return callback(null, allowed);
      callback(null, first.address, first.family);
    });
  };
}

/** Longest name that every common file system takes, counted in bytes, with room for a temporary suffix. */
const LONGEST = 200;

/** Names that Windows reserves for devices, with any ending. */
const deviceName = /^(con|prn|aux|nul|com\d|lpt\d)(\.|$)/i;

/** The name for a downloaded file: the one that the server gives, or the last part of the URL. Never a path. */
export function downloadName(disposition: string | undefined, url: string): string {
  const fromServer = disposition === undefined ? undefined : dispositionName(disposition);
  const segment = new URL(url).pathname.split("/").at(-1) ?? "";
  const fromUrl = decodePercent(segment, "utf-8") ?? segment;
  return safeName(fromServer ?? "") ?? safeName(fromUrl) ?? "download";
}

function dispositionName(header: string): string | undefined {
  const extended = /filename\*\s*=\s*"?([\w-]+)'[^']*'([^;"\s]+)/i.exec(header);
  if (extended !== null) {
    const decoded = decodePercent(extended[2]!, extended[1]!);
    if (decoded !== undefined) return decoded;
  }
  const quoted = /filename\s*=\s*"((?:[^"\\]|\\.)*)"/i.exec(header)?.[1]?.replace(/\\(.)/g, "$1");
  const plain = quoted ?? /filename\s*=\s*([^;"\s]+)/i.exec(header)?.[1];
  // Header bytes arrive as latin1; servers send UTF-8 in them.
  return plain === undefined ? undefined : Buffer.from(plain, "latin1").toString("utf8");
}

function decodePercent(text: string, charset: string): string | undefined {
  try {
    const bytes = text.replace(/%([\da-f]{2})/gi, (_whole, hex: string) =>
      String.fromCharCode(Number.parseInt(hex, 16)),
    );
    return new TextDecoder(charset, { fatal: true }).decode(Buffer.from(bytes, "latin1"));
  } catch {
    return undefined;
  }
}

/** One path segment that is legal and visible on every system, or undefined when no usable character is left. */
function safeName(text: string): string | undefined {
  const segment = text.split(/[/\\]/).at(-1) ?? "";
  const clean = segment
    .normalize("NFC")
    // Control and formatting characters could hide the true ending; the others are illegal on some systems.
    .replace(/[\p{Cc}\p{Cf}<>:"|?*]/gu, "_")
    .replace(/^[\s.]+|[\s.]+$/g, "");
  if (clean === "" || /^_+$/.test(clean)) return undefined;
  return shorten(deviceName.test(clean) ? `_${clean}` : clean);
}

function shorten(name: string): string {
  if (Buffer.byteLength(name) <= LONGEST) return name;
  const ending = /\.[\w-]{1,16}$/.exec(name)?.[0] ?? "";
  let stem = [...name.slice(0, name.length - ending.length)];
  while (Buffer.byteLength(stem.join("") + ending) > LONGEST) stem = stem.slice(0, -1);
  return stem.join("") + ending;
}

/** Headers that the HTTP client sets itself. A caller's value could smuggle in a second request or another host. */
const clientHeaders =
  /^(connection|content-length|expect|host|keep-alive|proxy-authorization|proxy-connection|te|trailer|transfer-encoding|upgrade)$/;

const secretName = /authorization|cookie|api-?key|token|secret|password|credential|signature/;

/** Turns header names to lower case. Throws for headers that the client sets itself. */
export function requestHeaders(given: Readonly<Record<string, string>> = {}): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(given)) {
    const key = name.toLowerCase();
    if (clientHeaders.test(key))
      throw new Error(`The header "${name}" is set by the client itself. Leave it out.`);
    headers[key] = value;
  }
  return headers;
}

/**
 * The headers for the request that follows a redirect: without secrets when it goes to another origin, and
 * without the headers that describe a body when it has no body.
 */
export function redirectHeaders(
  headers: Readonly<Record<string, string>>,
  isSameOrigin: boolean,
  hasBody: boolean,
): Record<string, string> {
  const kept = Object.entries(headers).filter(
    ([name]) => (isSameOrigin || !secretName.test(name)) && (hasBody || !name.startsWith("content-")),
  );
  return Object.fromEntries(kept);
}

/** Response headers as one value per name. Cookies keep their names and lose their values. */
export function shownHeaders(headers: NodeJS.Dict<string | string[]>): Record<string, string> {
  const shown: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (value === undefined) continue;
    const values = [value].flat();
    const isCookie = name === "set-cookie";
    const plain = isCookie ? values.map((one) => one.replace(/^([^=;]*)=?[^;]*/, "$1=[hidden]")) : values;
    shown[name] = plain.join(", ");
  }
  return shown;
}

/**
 * Runs an exchange with `host` under a time limit. A failure that the limit or the caller's cancel caused is reported
 * as such, whatever error it surfaced as.
 */
export async function withTimeLimit<T>(
  host: string,
  milliseconds: number,
  cancel: AbortSignal,
  exchange: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  cancel.throwIfAborted();
  const limit = AbortSignal.timeout(milliseconds);
  try {
    return await exchange(AbortSignal.any([cancel, limit]));
  } catch (error) {
    if (cancel.aborted) throw cancel.reason;
    if (limit.aborted) {
      throw new Error(
        `${host} did not finish answering within ${milliseconds} ms. Raise timeout if it is known to be slow.`,
      );
    }
    throw error instanceof Error ? explain(host, error) : error;
  }
}

function explain(host: string, error: NodeJS.ErrnoException): Error {
  if (error.code === "ECONNRESET")
    return new Error(`${host} closed the connection before the whole answer had come.`);
  if (/^(Z_|ERR_BROTLI|ERR__ERROR)/.test(error.code ?? ""))
    return new Error(`The compressed body that ${host} sent is damaged (${error.message}).`);
  if (error.code?.startsWith("HPE_"))
    return new Error(`${host} does not answer in valid HTTP (${error.message}).`);
  return error;
}
