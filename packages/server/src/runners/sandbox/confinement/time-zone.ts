/** For the environment of confined processes, which cannot see how the machine is set. */
export function timeZone(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone;
}
