import type { WorkerSpec } from "./types.ts";

/** What the network is to a worker, as the end of the sentence "Could not fetch …:". */
export function describeNetwork({ label, hosts }: WorkerSpec, level: 3 | 2): string {
  if (hosts.length === 0)
    return `${label} has no network access. Declare the host in the tool and let the operator grant it.`;
  if (level === 2)
    return `${label} has no network access, because this server isolates tools at the reduced level 2. The operator can install bubblewrap for level 3, where granted hosts can be reached.`;
  return `${label} may reach ${hosts.join(", ")} only.`;
}
