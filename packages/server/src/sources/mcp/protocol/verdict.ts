import type { DiscoverResult } from "@modelcontextprotocol/client";
import { hashValue } from "@toolrack/core";
import type { ServerEntry } from "../config/server-entry.ts";

/** What was found out about how a server talks, so that it need not be found out at every start. */
export interface Verdict {
  readonly era: "modern" | "legacy";
  /** What a server of the stateless protocol said about itself. */
  readonly discover?: DiscoverResult;
  readonly transport: "stdio" | "http" | "sse";
  /** Milliseconds since the epoch. */
  readonly at: number;
  /** Of the part of the entry that decides which program or address it is. */
  readonly fingerprint: string;
}

const DAY = 24 * 60 * 60_000;

/** The verdict, unless it is about another server, or about an old one that may have been renewed since. */
export function stillHolds(verdict: Verdict | undefined, entry: ServerEntry): Verdict | undefined {
  if (verdict === undefined || verdict.fingerprint !== fingerprintOf(entry)) return undefined;
  if (verdict.era === "legacy" && Date.now() - verdict.at > DAY) return undefined;
  if (verdict.era === "modern" && verdict.discover === undefined) return undefined;
  return verdict;
}

export function fingerprintOf({ type, command, args, url, cwd, toolrack }: ServerEntry): string {
  return hashValue([type, command, args, url, cwd, toolrack?.install]);
}
