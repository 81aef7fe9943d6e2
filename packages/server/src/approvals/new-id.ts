import { randomBytes } from "node:crypto";

/** Short enough to be typed. */
export function newId(): string {
  return randomBytes(6).toString("hex");
}
