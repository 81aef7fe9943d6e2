import { type Grant, grantOf, masterGrant } from "../auth/grant.ts";
import type { StoredSchedule } from "../store/schedules/schedule-store.ts";
import type { Store } from "../store/store.ts";
import { SCHEDULE_TOOL } from "./schedule-tool-name.ts";

type CreatorStore = Pick<Store, "schedules" | "tokens">;

/** Whoever made a schedule. It is kept with the schedule, whose runs may do no more than its creator may. */
export interface Creator {
  /** `token:<id>`, or the caller as it is when no token is behind it. */
  readonly key: string;
  /** Nobody's when the token was removed or has expired, or nobody knows whose call it was. */
  readonly grant: Grant | undefined;
}

const prefix = "token:";

/** Who makes a call now, by the caller at the beginning of its chain. */
export async function creatorOfCall(origin: string | undefined, store: CreatorStore): Promise<Creator> {
  if (origin === undefined) return { key: "", grant: undefined };
  for (const token of await store.tokens.list()) {
    const grant = grantOf(token);
    if (grant.caller === origin) return { key: prefix + token.id, grant };
  }
  // What runs by a schedule has the rights of whoever made that one.
  const scheduled = origin.startsWith(`${SCHEDULE_TOOL}_`)
    ? await store.schedules.get(origin.slice(SCHEDULE_TOOL.length + 1))
    : undefined;
  return scheduled === undefined
    ? { key: origin, grant: masterGrant }
    : creatorOfSchedule(scheduled, store.tokens);
}

/** Looked up anew each time: what the token may do now counts, also after a restart. */
export async function creatorOfSchedule(schedule: StoredSchedule, tokens: Store["tokens"]): Promise<Creator> {
  const key = schedule.caller;
  if (!key.startsWith(prefix)) return { key, grant: masterGrant };
  const token = (await tokens.list()).find(({ id }) => prefix + id === key);
  const isValid = token !== undefined && (token.expiresAt === undefined || token.expiresAt > Date.now());
  return { key, grant: isValid ? grantOf(token) : undefined };
}

/** A token without admin rights sees its own schedules and no others. */
export function maySee({ key, grant }: Creator, schedule: StoredSchedule): boolean {
  return grant !== undefined && (grant.admin || schedule.caller === key);
}

/** The same for the bearer of a token. */
export function creatorOfGrant(grant: Grant): Creator {
  return { key: grant === masterGrant ? grant.caller : prefix + grant.id, grant };
}
