import { lookup as resolveName } from "node:dns";
import type { LookupFunction } from "node:net";
import type { AddressRules } from "./address-rules.ts";

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
 * Resolves a name and gives out only addresses that may be reached. The connection is made to what this returns, so
 * a name that changes its address between a check and the connection gains nothing.
 */
export function guardedLookup(rules: AddressRules): LookupFunction {
  return (hostname, options, callback) => {
    resolveName(hostname, { ...options, all: true }, (error, addresses) => {
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
