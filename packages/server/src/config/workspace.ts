/** The directory that Toolrack opened, and what tools in it may touch. */
export interface Workspace {
  /** Absolute. Relative paths of tools resolve here, never against the process's own directory. */
  readonly directory: string;
  /** Absolute directories that file tools may touch; the workspace itself comes first. */
  readonly roots: readonly string[];
  /** Databases by name, as URLs: `sqlite:data/app.db`, `postgres://…`, `mysql://…`. */
  readonly databases: Readonly<Record<string, string>>;
  readonly network: {
    /** Hosts (`*.internal.example`, `10.0.0.5`) that may be reached although they are private. */
    readonly allowPrivate: readonly string[];
  };
  /** Absolute folders whose files become tools. */
  readonly toolFolders?: readonly string[];
  /** Absolute folders, each of whose folders may be a skill. */
  readonly skillFolders?: readonly string[];
  /** Absolute: the file that names MCP servers. */
  readonly mcpFile?: string;
  /** Absolute. */
  readonly logFile?: string;
  /** Absolute paths of files elsewhere that run all the same: what tools and the config import, what skills and MCP servers start. */
  readonly usedFiles?: () => Promise<readonly string[]>;
  /** Whether whoever is behind the call that was given this has an admin grant. Without it: no. */
  readonly isAdmin?: boolean;
}
