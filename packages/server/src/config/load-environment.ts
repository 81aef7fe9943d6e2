import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parseEnv } from "node:util";
import type { Logger } from "@toolrack/core";

/** The first that sets a variable wins. */
const files = [".env.local", ".env"];

/** Which file set what is in the environment now: as global as the environment itself. */
const origins = new Map<string, string>();

/**
 * Puts what the workspace's `.env.local` and `.env` say into the environment, where tools and the config look for it.
 * What is set there already wins. Answers with a function that takes it back, so that the next workspace has its own.
 */
export async function loadEnvironment(workspace: string, logger: Logger): Promise<() => void> {
  const added = new Map<string, string>();
  for (const file of files) {
    for (const [name, value] of Object.entries(await readVariables(workspace, file, logger))) {
      if (value === undefined || process.env[name] !== undefined) continue;
      process.env[name] = value;
      added.set(name, value);
      origins.set(name, file);
    }
  }
  return () => {
    for (const [name, value] of added) {
      origins.delete(name);
      if (process.env[name] === value) delete process.env[name];
    }
  };
}

/** The file of the workspace that set the variable; undefined when it was there before. */
export function environmentFileOf(name: string): string | undefined {
  return origins.get(name);
}

async function readVariables(
  workspace: string,
  file: string,
  logger: Logger,
): Promise<Record<string, string | undefined>> {
  try {
    return parseEnv(await readFile(join(workspace, file), "utf8"));
  } catch (thrown) {
    const { code, message } = thrown as NodeJS.ErrnoException;
    if (code !== "ENOENT") logger.warn(`${file} is not loaded: ${message}`);
    return {};
  }
}
