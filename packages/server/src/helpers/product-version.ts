import { readFileSync } from "node:fs";

export function productVersion(): string {
  const manifest: unknown = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8"));
  return (manifest as { version: string }).version; // npm allows no package without a version.
}
