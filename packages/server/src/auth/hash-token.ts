import { createHash } from "node:crypto";

/** What is kept of a token. A token holds 256 random bits, so a plain hash cannot be turned back by guessing. */
export function hashToken(token: string): string {
  return createHash("sha256").update(token).digest("hex");
}
