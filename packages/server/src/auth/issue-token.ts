import { randomBytes } from "node:crypto";
import { v7 as uuid } from "uuid";
import type { StoredToken, TokenStore } from "../store/store.ts";
import { hashToken } from "./hash-token.ts";
import { problemOfToolPattern } from "./tool-matcher.ts";

export interface TokenWish {
  readonly name: string;
  readonly scopes: StoredToken["scopes"];
  /** Milliseconds since the epoch. */
  readonly expiresAt?: number;
}

/** Records name tokens, and keep names only up to some length. */
const LONGEST_NAME = 100;

/** Makes a token. Its text is in the answer and nowhere else: the store keeps only the hash. */
export async function issueToken(
  tokens: TokenStore,
  wish: TokenWish,
): Promise<{ readonly token: string; readonly stored: StoredToken }> {
  if (wish.name.trim() === "" || wish.name.length > LONGEST_NAME) {
    throw new Error(`A token needs a name of at most ${LONGEST_NAME} characters.`);
  }
  for (const pattern of wish.scopes.tools ?? []) {
    const problem = problemOfToolPattern(pattern);
    if (problem !== undefined) throw new Error(problem);
  }
  const token = `trk_${randomBytes(32).toString("base64url")}`;
  const stored: StoredToken = { id: uuid(), createdAt: Date.now(), ...wish };
  await tokens.add(stored, hashToken(token));
  return { token, stored };
}
