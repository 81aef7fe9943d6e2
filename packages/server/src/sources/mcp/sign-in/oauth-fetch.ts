import { lookup } from "node:dns/promises";
import { createAddressRules, plainHost } from "../../../internal-tools/network/support/address-rules.ts";
import { boundedFetch } from "../protocol/bounded-fetch.ts";

/** Metadata and tokens are small. */
const LARGEST_ANSWER = 1024 * 1024;
const PATIENCE = 20_000;

const bounded = boundedFetch(LARGEST_ANSWER);
const publicOnly = createAddressRules([]);

export type OAuthFetch = (input: string | URL, init?: RequestInit) => Promise<Response>;

/**
 * How authorization servers are reached: none of them can keep the rack waiting, or fill its memory. Which they are, the
 * MCP server says; one on the Internet must not be able to have the rack send requests into a private network. `issuer`
 * is one that the operator named.
 */
export function oauthFetchFor(server: URL, issuer: string | undefined): OAuthFetch {
  const named = [server, URL.parse(issuer ?? "")].flatMap((url) => (url === null ? [] : [url.hostname]));
  return async (input, init = {}) => {
    const { hostname, origin } = new URL(input);
    const isForeign = !named.includes(hostname);
    if (isForeign && !(await isInner(server.hostname)) && (await isInner(hostname))) {
      throw new Error(
        `${server.host} names ${origin} for signing in, which is in a private network, so it was not asked. If that is right, name it as toolrack.oauth.issuer in the entry.`,
      );
    }
    const limit = AbortSignal.timeout(PATIENCE);
    const signal = init.signal == null ? limit : AbortSignal.any([init.signal, limit]);
    return bounded(input, { ...init, signal });
  };
}

/** Of a name that cannot be found, the request itself says so. */
async function isInner(hostname: string): Promise<boolean> {
  const host = plainHost(hostname);
  const found = await lookup(host, { all: true }).catch(() => []);
  return found.some(({ address }) => publicOnly.refusal(host, address) !== undefined);
}
