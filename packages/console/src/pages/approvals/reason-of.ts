import type { Approval } from "../../api/types.ts";

/** What the rack itself writes where no person answered. */
const known: Readonly<Record<string, string>> = {
  "the call ended before anybody answered": "approvals.callGone",
  "the server stopped before anybody answered": "approvals.serverGone",
};

/** Why a question was answered so: a person's own words, or those of the rack in the language of the console. */
export function reasonOf({ reason = "" }: Approval, t: (key: string) => string): string {
  const key = Object.hasOwn(known, reason) ? known[reason] : undefined;
  return key === undefined ? reason : t(key);
}
