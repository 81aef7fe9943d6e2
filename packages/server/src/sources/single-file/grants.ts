/**
 * The hosts that a tool may reach: those that it declares and the operator grants, the narrower of the two where one
 * covers the other. A tool that declares none was written without knowing of grants; then the grant alone counts.
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

/** A grant without a port is one for the usual ports, and does not cover others. */
function covers(given: string, wanted: string): boolean {
  const [givenName, givenPort] = split(given);
  const [wantedName, wantedPort] = split(wanted);
  if (givenPort !== wantedPort) return false;
  if (givenName === wantedName || givenName === "*") return true;
  return givenName.startsWith("*.") && wantedName.endsWith(givenName.slice(1));
}

function split(host: string): [name: string, port: string] {
  const [, name = host, port = ""] = /^(.*?)(?::(\d+))?$/.exec(host.toLowerCase()) ?? [];
  return [name, port];
}
