import type { Logger, SchemaIssue } from "@toolrack/core";
import type { StoredApproval } from "../store/approvals/approval-store.ts";
import type { Store } from "../store/store.ts";
import type { FormerNameOf } from "./rule-for.ts";

export interface InboxParts {
  readonly store: Pick<Store, "approvals" | "calls">;
  readonly logger: Logger;
  /** Secret values; they are masked in what is kept and shown. */
  readonly secrets?: () => Iterable<string>;
  /** Who made the first call of a call's chain. Default: the call's own caller. */
  readonly originOf?: (callId: string) => string | undefined;
  /** Rules that deny a tool, or ask about it, hold by this name too. */
  readonly formerNameOf?: FormerNameOf;
  /** Makes a call anew whose process ended while its question waited. Without it, such a question is closed. */
  readonly resume?: (call: ResumedCall) => Promise<unknown>;
  /** How long a question waits, in milliseconds. Default: as long as core lets it. */
  readonly timeout?: () => number | undefined;
  /** What is wrong with arguments that a person wrote for a tool. Without it, the call itself finds out. */
  readonly check?: (
    toolName: string,
    input: Readonly<Record<string, unknown>>,
  ) => Promise<readonly SchemaIssue[]>;
}

/** A call that somebody agreed to after its process had ended. */
export interface ResumedCall {
  /** The new one's id. */
  readonly callId: string;
  readonly approval: StoredApproval;
}
