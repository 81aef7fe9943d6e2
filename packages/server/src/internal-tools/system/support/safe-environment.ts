/** Variables that say how the machine is set up and never hold a secret. `LC_*` counts as well. */
const safeNames = new Set(["PATH", "HOME", "LANG", "TZ", "TMPDIR", "USER", "SHELL", "TERM"]);

/** May the value of this variable be shown, or handed to a child process? */
export function isSafeVariable(name: string): boolean {
  return safeNames.has(name) || /^LC_[A-Z]+$/.test(name);
}

/**
 * The environment of a child process: the safe variables, then the additions. Nothing else of the server's own
 * environment gets in, because that is where tokens and passwords live.
 */
export function childEnvironment(additions: Readonly<Record<string, string>> = {}): Record<string, string> {
  const environment: Record<string, string> = {};
  for (const [name, value] of Object.entries(process.env)) {
    if (value !== undefined && isSafeVariable(name)) environment[name] = value;
  }
  return { ...environment, TERM: "dumb", ...additions };
}
