import { isIP } from "node:net";
import ipaddr from "ipaddr.js";
import { plainHost } from "../helpers/index.ts";

/** The network hosts that a tool may reach. */
export interface Grants {
  allows(host: string, port: number): boolean;
  /**
   * Granted addresses, address ranges, and names that only the local network can resolve. Only these may be private:
   * the owner of any other name could point it at this machine.
   */
  readonly mayBePrivate: readonly string[];
}

const webPorts: readonly number[] = [80, 443];

/**
 * `api.example.com` grants that name, `*.example.com` every name below it, `*` every name and public address, all on
 * the ports of the web; `host:8080` grants that port alone. A range such as `10.0.0.0/8` grants nothing by itself, but
 * granted names may resolve into it. Any other entry grants nothing; `grantProblem` says why.
 */
export function parseGrants(hosts: readonly string[]): Grants {
  const entries = hosts.map(parseEntry);
  return {
    allows: (host, port) => {
      const name = plainHost(host);
      return entries.some((entry) => entry.ports.includes(port) && entry.matches(name));
    },
    mayBePrivate: entries.flatMap(({ localHost }) => (localHost === undefined ? [] : [localHost])),
  };
}

interface Entry {
  readonly ports: readonly number[];
  readonly localHost?: string;
  matches(name: string): boolean;
}

/** Says what is wrong with a grant and what to write instead; undefined for a valid grant. */
export function grantProblem(text: string): string | undefined {
  const { name, port } = split(text);
  if (port !== undefined && port > 65_535) return `${JSON.stringify(text)} has a port above 65535.`;
  if (isGrantable(name)) return undefined;
  const guess = guessHost(text);
  const what = `${JSON.stringify(text)} is not a host, and grants nothing.`;
  return guess === undefined
    ? `${what} Write a host such as "api.example.com", "*.example.com", "localhost:8080", or "*" for every public one.`
    : `${what} Write "${guess}".`;
}

function isGrantable(name: string): boolean {
  if (name === "*" || isIP(name) !== 0 || ipaddr.isValidCIDR(name)) return true;
  const host = name.startsWith("*.") ? name.slice(2) : name;
  // An IP address in another spelling would never match.
  return hostName.test(host) && URL.canParse(`http://${host}`) && new URL(`http://${host}`).hostname === host;
}

const hostName = /^[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*$/;

/** Guesses the intended host from a URL or another spelling. */
function guessHost(text: string): string | undefined {
  const address = text.includes("://") ? text : `http://${text}`;
  if (!URL.canParse(address)) return undefined;
  const { host } = new URL(address);
  return isGrantable(split(host).name) ? host : undefined;
}

/** Splits a host into a name without brackets and an optional port. The name is empty when the text is not a host. */
function split(text: string): { readonly name: string; readonly port?: number } {
  const plain = text.trim();
  // An IPv6 address without brackets has no port.
  if (isIP(plain) === 6 || ipaddr.isValidCIDR(plain)) return { name: plainHost(plain) };
  const [, host = "", port] = /^(\[[^\]]*\]|[^:]*)(?::(\d+))?$/.exec(plain) ?? [];
  return {
    name: host === "*." ? "" : plainHost(host),
    ...(port === undefined ? {} : { port: Number(port) }),
  };
}

function parseEntry(text: string): Entry {
  const { name, port } = split(text);
  if (!isGrantable(name)) return { ports: [], matches: () => false };
  const ports = port === undefined ? webPorts : [port];
  if (name === "*") return { ports, matches: () => true };
  if (name.startsWith("*.")) {
    const suffix = name.slice(1);
    return { ports, matches: (other) => other.endsWith(suffix) && other.length > suffix.length };
  }
  const matches = (other: string) => other === name;
  return isLocal(name) ? { ports, localHost: name, matches } : { ports, matches };
}

/**
 * Endings of host names that nobody can register, so they always mean machines nearby. The same is true of names
 * without a dot.
 */
const localEndings = /\.(localhost|local|internal|lan|home\.arpa|test)$/;

function isLocal(name: string): boolean {
  return isIP(name) !== 0 || name.includes("/") || !name.includes(".") || localEndings.test(name);
}
