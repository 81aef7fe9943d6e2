import { randomUUID } from "node:crypto";
import { rm } from "node:fs/promises";
import { dirname, join } from "node:path";

/**
 * Lets `make` build something under a passing name beside `target`, so that one rename can put it in place.
 * When `make` fails, nothing of it is left.
 */
export async function withTemporary<Value>(
  target: string,
  make: (temporary: string) => Promise<Value>,
): Promise<Value> {
  const temporary = join(dirname(target), `.toolrack-${randomUUID()}.tmp`);
  try {
    return await make(temporary);
  } catch (error) {
    await rm(temporary, { recursive: true, force: true });
    throw error;
  }
}
