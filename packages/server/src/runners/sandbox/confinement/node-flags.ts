export interface NodeFlags {
  readonly read: readonly string[];
  readonly write: readonly string[];
  /** Node knows only all or nothing here; which hosts is decided outside. */
  readonly network: boolean;
  readonly memoryMb: number;
}

const known = process.allowedNodeEnvironmentFlags;

/** This Node can keep a process from the network by itself. */
export const nodeGuardsNetwork = known.has("--allow-net");

/** Everything that closes a door of Node. Flags that this Node does not know have no door to close. */
const closed = [
  // Without it node:sqlite opens any file, past the permissions.
  "--no-experimental-sqlite",
  "--no-addons",
  "--no-experimental-ffi",
  "--no-experimental-webstorage",
  "--disable-sigusr1",
].filter((flag) => known.has(flag) || known.has(flag.replace("--no-", "--")));

export function nodeFlags({ read, write, network, memoryMb }: NodeFlags): string[] {
  return [
    "--permission",
    // Flags of the engine can write files past the permissions (--trace-turbo-path). This makes their memory read-only.
    "--freeze-flags-after-init",
    ...closed,
    ...read.map((path) => `--allow-fs-read=${path}`),
    ...write.flatMap((path) => [`--allow-fs-read=${path}`, `--allow-fs-write=${path}`]),
    ...(network && nodeGuardsNetwork ? ["--allow-net"] : []),
    `--max-old-space-size=${memoryMb}`,
    "--disable-warning=SecurityWarning",
    "--disable-warning=ExperimentalWarning",
  ];
}
