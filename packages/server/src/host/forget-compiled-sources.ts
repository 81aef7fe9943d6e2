import { setFlagsFromString } from "node:v8";

/**
 * V8 remembers the text of every script it compiled, in case the same text comes again. Of a file that is
 * reloaded it never does, and each version would stay in memory for long after it was dropped.
 */
export function forgetCompiledSources(): void {
  setFlagsFromString("--no-compilation-cache");
}
