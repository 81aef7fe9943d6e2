/** Networks of a company or a machine. Not among them is where clouds hand out credentials: that needs to be named. */
const privateRanges = [
  "127.0.0.0/8",
  "10.0.0.0/8",
  "172.16.0.0/12",
  "192.168.0.0/16",
  "100.64.0.0/10",
  "::1/128",
  "fc00::/7",
];

/** Where tools of skills may connect to although it is private. */
export function reachableRanges(
  named: readonly string[],
  { allowPrivateNetwork = false }: { readonly allowPrivateNetwork?: boolean },
  environment: NodeJS.ProcessEnv,
): string[] {
  const isAllowed =
    allowPrivateNetwork || /^(1|true|yes|on)$/i.test(environment.TOOLRACK_ALLOW_PRIVATE_NETWORK ?? "");
  return isAllowed ? [...named, ...privateRanges] : [...named];
}
