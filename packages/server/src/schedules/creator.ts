import { type Grant, grantOf } from "../auth/grant.ts";
import type { StoredSchedule } from "../store/schedules/schedule-store.ts";
import type { TokenStore } from "../store/store.ts";

/** Whoever made a schedule. It is kept with the schedule, whose runs may do no more than its creator may. */
export interface Creator {
  /** `token:<id>`, or the caller as it is when no token is behind it. */
  readonly key: string;
  /** Nobody's when the token was removed or has expired. */
  readonly grant: Grant | "operator" | undefined;
}

const prefix = "token:";

/** Who makes a call now, by the caller that its record names. */
export async function creatorOfCall(caller: string, tokens: TokenStore): Promise<Creator> {
  for (const token of await tokens.list()) {
    const grant = grantOf(token);
    if (grant.caller === caller) return { key: prefix + token.id, grant };
  }
  return { key: caller, grant: "operator" };
}

export async function creatorOfSchedule(schedule: StoredSchedule, tokens: TokenStore): Promise<Creator> {
  const key = schedule.caller;
  if (!key.startsWith(prefix)) return { key, grant: "operator" };
  const token = (await tokens.list()).find(({ id }) => prefix + id === key);
  const isValid = token !== undefined && (token.expiresAt === undefined || token.expiresAt > Date.now());
  return { key, grant: isValid ? grantOf(token) : undefined };
}

export function mayUse({ grant }: Creator, toolName: string): boolean {
  return grant === "operator" || grant?.mayUse(toolName) === true;
}

/** A token without admin rights sees its own schedules and no others. */
export function maySee({ key, grant }: Creator, schedule: StoredSchedule): boolean {
  return grant === "operator" || grant?.admin === true || schedule.caller === key;
}
