import { isIP } from "node:net";
import { HttpError } from "./http-error.ts";

/**
 * Refuses requests for other hosts. A page of an attacker whose name was pointed at this machine (DNS rebinding)
 * still names its own host. IP addresses cannot be pointed elsewhere, so they are taken as they are.
 */
export function checkHost(host: string | undefined, allowed: ReadonlySet<string>): void {
  if (isKnownHost(host, allowed)) return;
  const name = host === undefined ? "" : hostName(host);
  throw new HttpError(
    "host_not_allowed",
    `This server does not answer for the host "${name}". Use its address, or add the name to the allowed hosts.`,
  );
}

export function isKnownHost(host: string | undefined, allowed: ReadonlySet<string>): boolean {
  if (host === undefined) return allowed.has("");
  if (ownHosts.has(host)) return true;
  const name = hostName(host);
  if (!isAddress(name) && name !== "localhost" && !name.endsWith(".localhost")) return allowed.has(name);
  if (ownHosts.size >= MOST_OWN) ownHosts.clear();
  ownHosts.add(host);
  return true;
}

/** Headers that were found to name this machine itself, whatever is allowed: the same few come with every request. */
const ownHosts = new Set<string>();
const MOST_OWN = 100;

function hostName(host: string): string {
  return host.trim().toLowerCase().replace(/:\d+$/, "").replace(/\.$/, "");
}

function isAddress(name: string): boolean {
  return isIP(name) === 4 || (name.startsWith("[") && name.endsWith("]") && isIP(name.slice(1, -1)) === 6);
}
