import { isAbsolute, posix, win32 } from "node:path";

/** Where a user's programs keep their files. */
export interface ClientPlaces {
  readonly home: string;
  /** Of programs that go by the customs of Linux everywhere. */
  readonly config: string;
  /** Of programs with a window: each system has its own. */
  readonly applications: string;
  /** Zed's own: on macOS it goes by no variable. */
  readonly zed: string;
  /** What the clients' own variables say, where they are set. */
  readonly claudeCode: string | undefined;
  readonly codex: string | undefined;
  readonly join: (...parts: string[]) => string;
}

/** By the environment, as the clients themselves look. */
export function clientPlaces(
  environment: NodeJS.ProcessEnv,
  home: string,
  platform: NodeJS.Platform = process.platform,
): ClientPlaces {
  const { join } = platform === "win32" ? win32 : posix;
  const config = folder(environment.XDG_CONFIG_HOME) ?? join(home, ".config");
  const system = platform === "win32" || platform === "darwin" ? platform : "linux";
  const roaming = folder(environment.APPDATA) ?? join(home, "AppData", "Roaming");
  const applications = {
    win32: roaming,
    darwin: join(home, "Library", "Application Support"),
    linux: config,
  };
  const zed = {
    win32: join(roaming, "Zed"),
    darwin: join(home, ".config", "zed"),
    linux: join(config, "zed"),
  };
  return {
    home,
    config,
    applications: applications[system],
    zed: zed[system],
    claudeCode: folder(environment.CLAUDE_CONFIG_DIR),
    codex: folder(environment.CODEX_HOME),
    join,
  };
}

/** A variable that is empty, or names a folder relative to nothing that we know, says nothing. */
function folder(value: string | undefined): string | undefined {
  return value !== undefined && (isAbsolute(value) || win32.isAbsolute(value)) ? value : undefined;
}
