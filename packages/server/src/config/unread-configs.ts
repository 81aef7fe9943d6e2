import { existsSync, readdirSync } from "node:fs";

/** Files that look like the config and are none: it is code, so JSON and YAML are not read. */
export function unreadConfigs(workspace: string): string[] {
  if (!existsSync(workspace)) return [];
  return readdirSync(workspace).filter(
    (name) => /^toolrack\.config\.[^.]+$/.test(name) && !/\.(?:[cm]?js|m?ts)$/.test(name),
  );
}
