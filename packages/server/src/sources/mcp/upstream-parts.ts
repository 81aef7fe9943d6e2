import type { Logger } from "@toolrack/core";
import type { DependencyStore } from "../../dependencies/dependency-store.ts";
import type { Catalogue } from "./catalogue/catalogue.ts";
import type { Surroundings } from "./config/expand.ts";
import type { ServerEntry } from "./config/server-entry.ts";
import type { ListName } from "./protocol/upstream-session.ts";
import type { Verdict } from "./protocol/verdict.ts";
import type { SignIn } from "./sign-in/sign-in.ts";

/** What an upstream server is made of, and whom it tells. */
export interface UpstreamParts {
  readonly key: string;
  readonly entry: ServerEntry;
  /** Why it cannot be started with this entry at all. */
  readonly problem?: string | undefined;
  /** Where the entry stands, for messages: `mcp.json` or `mcp_servers`. */
  readonly place: string;
  readonly isEnabled: boolean;
  readonly surroundings: Surroundings;
  readonly clientInfo: { readonly name: string; readonly version: string };
  /** Where packages are installed. */
  readonly packages: Pick<DependencyStore, "install">;
  readonly mask: (text: string) => string;
  /** Is told, at every start, which values of the entry nobody may see. */
  hold(values: Iterable<string>): void;
  readonly logger: Logger;
  /** Undefined where nobody can sign in: a process, or a server that is sent credentials of its entry. */
  readonly signIn: Pick<SignIn, "headers" | "distrust" | "renewAt" | "want" | "view"> | undefined;
  /** From an earlier time. */
  readonly verdict: Verdict | undefined;
  readonly catalogue: Catalogue | undefined;
  onState(): void;
  onVerdict(verdict: Verdict | undefined): void;
  onCatalogue(catalogue: Catalogue, changed: readonly ListName[]): void;
  onResourceUpdated(uri: string): void;
}
