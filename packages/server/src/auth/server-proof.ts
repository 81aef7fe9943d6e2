import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";

/** What is asked of somebody who says to be the server: different each time, so that no answer can be used again. */
export function newNonce(): string {
  return randomBytes(24).toString("base64url");
}

/**
 * Shows that whoever answers knows the workspace's token, without showing the token. The port is part of it: a program
 * on another port cannot have the server answer in its place.
 */
export function serverProof(token: string, port: number, nonce: string): string {
  return createHmac("sha256", token).update(`toolrack server\n${port}\n${nonce}`).digest("base64url");
}

export function isServerProof(given: unknown, token: string, port: number, nonce: string): boolean {
  if (typeof given !== "string") return false;
  const [one, other] = [Buffer.from(given), Buffer.from(serverProof(token, port, nonce))];
  return one.length === other.length && timingSafeEqual(one, other);
}
