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
  const name = host === undefined ? "" : hostName(host);
  return isAddress(name) || name === "localhost" || name.endsWith(".localhost") || allowed.has(name);
}

function hostName(host: string): string {
  return host.trim().toLowerCase().replace(/:\d+$/, "").replace(/\.$/, "");
}

function isAddress(name: string): boolean {
  return isIP(name) === 4 || (name.startsWith("[") && name.endsWith("]") && isIP(name.slice(1, -1)) === 6);
}
