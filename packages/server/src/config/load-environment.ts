import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parseEnv } from "node:util";
import type { Logger } from "@toolrack/core";

/**
 * Puts what the workspace's `.env` says into the environment, where tools and the config look for it. What is set
 * there already wins. Answers with a function that takes it back, so that the next workspace has its own.
 */
export async function loadEnvironment(workspace: string, logger: Logger): Promise<() => void> {
  const added = new Map<string, string>();
  try {
    const found = parseEnv(await readFile(join(workspace, ".env"), "utf8"));
    for (const [name, value] of Object.entries(found)) {
      if (value === undefined || process.env[name] !== undefined) continue;
      process.env[name] = value;
      added.set(name, value);
    }
  } catch (thrown) {
    const { code, message } = thrown as NodeJS.ErrnoException;
    if (code !== "ENOENT") logger.warn(`.env is not loaded: ${message}`);
  }
  return () => {
    for (const [name, value] of added) if (process.env[name] === value) delete process.env[name];
  };
}
