import { join } from "node:path";
import { type Logger, redact, type ToolRegistry } from "@toolrack/core";
import { DependencyStore } from "../../dependencies/dependency-store.ts";
import type { Offerings } from "../../offerings/offerings.ts";
import { MaskedValues } from "../../secrets/masked-values.ts";
import type { Secrets } from "../../secrets/open-secrets.ts";
import type { McpServerStore } from "../../store/mcp-servers/mcp-server-store.ts";
import type { PinningPolicy } from "./catalogue/pin.ts";
import type { RackNames } from "./catalogue/rack-names.ts";
import type { Surroundings } from "./config/expand.ts";
import type { VaultSecrets } from "./sign-in/sign-in-vault.ts";

export interface McpServersParts {
  readonly registry: ToolRegistry;
  readonly offerings?: Offerings;
  readonly store: McpServerStore;
  readonly secrets: Pick<Secrets, "values" | "hold"> & VaultSecrets;
  readonly logger: Logger;
  /** The workspace. */
  readonly directory: string;
  /** The file with `mcpServers`, relative to the workspace. Default `mcp.json`. */
  readonly file?: string;
  /** Default `quarantine`. */
  readonly pinning?: PinningPolicy;
  /** Where packages are installed. Default: `.toolrack/mcp` of the workspace. */
  readonly packages?: Pick<DependencyStore, "install">;
  /** How servers are told who we are. */
  readonly clientInfo?: { readonly name: string; readonly version: string };
}

/** What all servers share. */
export interface ServerSurroundings {
  readonly registry: ToolRegistry;
  readonly offerings: Offerings | undefined;
  readonly store: McpServerStore;
  readonly logger: Logger;
  readonly surroundings: Surroundings;
  readonly clientInfo: { readonly name: string; readonly version: string };
  readonly packages: Pick<DependencyStore, "install">;
  readonly pinning: PinningPolicy;
  /** For everything that a server says, and that is said of it. */
  readonly mask: (text: string) => string;
  /** Values of the entry with this key that must be masked everywhere while it is there; none when it goes. */
  readonly hold: (key: string, values: Iterable<string>) => void;
  /** Where sign-ins are kept. */
  readonly secrets: VaultSecrets;
  readonly names: RackNames;
  /** Names of other servers than this one are others now. */
  readonly onNames: (key: string) => void;
  readonly onChange: () => void;
}

export function serverSurroundings(
  parts: McpServersParts,
  own: Pick<ServerSurroundings, "names" | "onNames" | "onChange">,
): ServerSurroundings {
  const { registry, offerings, store, secrets, logger, directory } = parts;
  const { list: values } = new MaskedValues(() => secrets.values());
  return {
    registry,
    offerings,
    store,
    logger,
    surroundings: { directory, environment: process.env, secret: (name) => secrets.get(name) },
    clientInfo: parts.clientInfo ?? { name: "toolrack", version: "0" },
    packages:
      parts.packages ??
      new DependencyStore({
        directory: join(directory, ".toolrack", "mcp"),
        npmrc: join(directory, ".npmrc"),
        logger,
      }),
    pinning: parts.pinning ?? "quarantine",
    mask: (text) => String(redact(text, { values: values() })),
    hold: (key, held) => secrets.hold(`mcp-server ${key}`, held),
    secrets,
    ...own,
  };
}
