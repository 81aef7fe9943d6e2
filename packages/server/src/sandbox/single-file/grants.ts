/**
 * The hosts that a tool may reach: those that it declares and the operator grants. Where one covers the
 * other, as `*.example.com` covers `api.example.com`, the narrower counts. A tool that declares none may
 * reach all granted hosts.
 */
export function grantedHosts(declared: readonly string[] | undefined, granted: readonly string[]): string[] {
  if (declared === undefined) return [...new Set(granted)].sort();
  const hosts = declared.flatMap((wanted) =>
    granted.flatMap((given) => {
      if (covers(given, wanted)) return [wanted];
      return covers(wanted, given) ? [given] : [];
    }),
  );
  return [...new Set(hosts)].sort();
}

/** Hosts that a tool declares and no grant covers even in part. */
export function missingHosts(declared: readonly string[] | undefined, granted: readonly string[]): string[] {
  return (declared ?? []).filter(
    (wanted) => !granted.some((given) => covers(given, wanted) || covers(wanted, given)),
  );
}

/** Whether `given` includes every host that `wanted` names. No port stands for the usual ports of the web. */
function covers(given: string, wanted: string): boolean {
  const [givenName, givenPort] = split(given);
  const [wantedName, wantedPort] = split(wanted);
  const isUsual = givenPort === "" && ["80", "443"].includes(wantedPort);
  if (givenPort !== wantedPort && !isUsual) return false;
  if (givenName === wantedName || givenName === "*") return true;
  return givenName.startsWith("*.") && wantedName.endsWith(givenName.slice(1));
}

function split(host: string): [name: string, port: string] {
  const [, name = host, port = ""] = /^(.*?)(?::(\d+))?$/.exec(host.toLowerCase()) ?? [];
  return [name, port];
}
