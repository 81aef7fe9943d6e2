import { canonicalName, hashValue } from "@toolrack/core";

const HASH_LENGTH = 8;

/**
 * The name of an upstream tool on the rack: `mcp_{serverKey}_{name}`. Keys may have underscores, so `a` with `b_c` and
 * `a_b` with `c` would be one name. A tool whose name would look like that of another server gets a hash; this depends on
 * which servers there are and never on which of them came first.
 */
export function rackNameOf(key: string, name: string, keys: Iterable<string>): string {
  const wanted = `mcp_${key}_${name}`;
  for (const other of keys) {
    if (other.length > key.length && wanted.startsWith(`mcp_${other}_`)) {
      return canonicalName(`${wanted}_${hashValue([key, name]).slice(0, HASH_LENGTH)}`);
    }
  }
  return canonicalName(wanted);
}
