import type { Logger, ToolRegistry } from "@toolrack/core";
import type { Secrets, Unapproved } from "../../access/index.ts";
import type { Offerings, Origin, RackIdentity } from "../../calls/index.ts";
import type { McpServerStore } from "../../store/index.ts";
import type { ClientInfo } from "../wire/index.ts";
import type { RackNames } from "./catalogue/rack-names.ts";
import type { PinningPolicy } from "./catalogue/tool-approvals.ts";
import type { Surroundings } from "./config/resolve-entry.ts";
import type { PackageStore } from "./process/server-files.ts";
import type { OpenApi } from "./protocol/api.ts";
import type { VaultSecrets } from "./sign-in/stored-sign-in.ts";

export interface McpServersOptions {
  readonly registry: ToolRegistry;
  readonly offerings: Offerings;
  readonly store: McpServerStore;
  readonly secrets: Pick<Secrets, "values" | "maskFor" | "list"> & VaultSecrets;
  /** Finds a setting of the workspace by its name. */
  readonly setting: (name: string) => Promise<string | undefined>;
  /** Finds who began the chain that a call belongs to. */
  readonly originOf: (callId: string) => Origin | undefined;
  readonly logger: Logger;
  /** The folder of the workspace. */
  readonly directory: string;
  /** The file with `mcpServers`, relative to the workspace. Default `mcp.json`. */
  readonly file?: string | undefined;
  /** Entries of the file that wait for an admin because a tool call wrote them. */
  readonly unapproved: Pick<Unapproved, "servers" | "approveServer">;
  /** What happens when the definition of a tool changes. */
  readonly pinning: PinningPolicy;
  /** Installs the npm packages of servers. */
  readonly packages: PackageStore;
  /** Reads the description of an API. */
  readonly openApi: OpenApi;
  /** Which rack this is, so that circles of racks are noticed. */
  readonly identity: RackIdentity;
  /** Our name and version, sent to servers. */
  readonly clientInfo: ClientInfo;
}

/** What all servers of a rack share. */
export interface ServerContext extends McpServersOptions {
  /** Masks secrets in everything that comes from a server or is written about it. */
  readonly mask: (text: string) => string;
  readonly surroundings: Surroundings;
  readonly names: RackNames;
  /**
   * Sets the values in the entry of the server `key` that must be masked everywhere. No values when that server
   * is closed.
   */
  readonly maskFor: (key: string, values: Iterable<string>) => void;
  /** Called when the server `key` has changed the names of other servers' tools and prompts. */
  readonly onNames: (key: string) => void;
  readonly onChange: () => void;
}
