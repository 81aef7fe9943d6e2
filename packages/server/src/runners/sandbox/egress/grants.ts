import { isIP } from "node:net";
import { plainHost } from "../../../internal-tools/network/support/address-rules.ts";

/** The hosts that a piece of code may reach. */
export interface Grants {
  allows(host: string, port: number): boolean;
  /**
   * Granted addresses, ranges of addresses, and names that only the own network can give away. These may be private.
   * The owner of any other name can make it lead to this machine, so such a name alone opens nothing private.
   */
  readonly mayBePrivate: readonly string[];
}

const webPorts: readonly number[] = [80, 443];

/**
 * `api.example.com` grants that name, `*.example.com` every name below it, both on the ports of the web;
 * `host:8080` grants that port alone. A range such as `10.0.0.0/8` grants nothing by itself; granted names may lead
 * into it. An entry that is none of these grants nothing.
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

function parseEntry(text: string): Entry {
  const [, host = "", port] = /^(\[[^\]]*\]|[^:]*)(?::(\d+))?$/.exec(text.trim()) ?? [];
  const name = plainHost(host);
  const ports = port === undefined ? webPorts : [Number(port)];
  if (name.startsWith("*.") && name.length > 2) {
    const suffix = name.slice(1);
    return { ports, matches: (other) => other.endsWith(suffix) && other.length > suffix.length };
  }
  if (name === "") return { ports: [], matches: () => false };
  const matches = (other: string) => other === name;
  return isLocal(name) ? { ports, localHost: name, matches } : { ports, matches };
}

/** Names without a dot and those below these endings are never sold to anybody. */
const localEndings = /\.(localhost|local|internal|lan|home\.arpa|test)$/;

function isLocal(name: string): boolean {
  return isIP(name) !== 0 || name.includes("/") || !name.includes(".") || localEndings.test(name);
}
