import type { Config } from "./config.ts";

/** Gives a workspace's `toolrack.config.ts` its types. */
export function defineConfig(config: Config): Config {
  return config;
}
