import { basename } from "node:path";
import type { ResolvedEntry } from "../config/resolve-entry.ts";

/** Programs that fetch what they run. */
const ofNpm: ReadonlySet<string> = new Set(["npx", "npm", "pnpx", "pnpm", "bunx", "yarn"]);
const others: ReadonlySet<string> = new Set(["uvx", "uv", "pipx"]);

/** What may help where a server said nothing in time. It begins with a space, or is empty. */
export function slowStartAdvice(entry: ResolvedEntry): string {
  const program =
    entry.kind === "process" ? basename(entry.command ?? "").replace(/\.(?:cmd|exe)$/i, "") : "";
  if (!ofNpm.has(program) && !others.has(program)) return "";
  const install = ofNpm.has(program)
    ? ', or have it installed ahead: "toolrack": { "install": "PACKAGE@VERSION" }'
    : "";
  const certificates = ofNpm.has(program) ? "NODE_EXTRA_CA_CERTS" : "SSL_CERT_FILE";
  return ` ${program} may still be fetching it, or may not reach where it is fetched from: it is given no variables but those of its entry. Behind a proxy, list HTTPS_PROXY and ${certificates} in the entry's env${install}.`;
}
