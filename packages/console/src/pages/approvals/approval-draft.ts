import { ref } from "vue";
import type { Approval } from "../../api/index.ts";
import { t } from "../../i18n/index.ts";
import { isRecord } from "../../text/index.ts";

/** Drafts of questions that ended elsewhere stay behind. */
const MOST = 200;
const drafts = new Map<string, ReturnType<typeof newDraft>>();

/** The draft of a question: the same one wherever and however often it is shown, until it is forgotten. */
export function draftOf({ id, input }: Pick<Approval, "id" | "input">): ReturnType<typeof newDraft> {
  const draft = drafts.get(id) ?? newDraft(input);
  const [oldest] = drafts.keys();
  if (!drafts.has(id) && drafts.size >= MOST) drafts.delete(oldest!);
  drafts.set(id, draft);
  return draft;
}

/** What somebody makes of a question before it is answered: the arguments as they are changed, and how it is answered. */
function newDraft(input: unknown) {
  return {
    value: ref(input),
    scope: ref<Scope>("once"),
    pattern: ref(""),
    isPatternTouched: ref(false),
    isExact: ref(true),
    reason: ref(""),
    isDenying: ref(false),
  };
}

export function forgetDraft(id: string): void {
  drafts.delete(id);
}

export const scopes = ["once", "session", "pattern"] as const;
export type Scope = (typeof scopes)[number];

/** A first pattern, which fits exactly these arguments: stars in them are escaped. The person may widen it. */
export function suggestedPattern(value: unknown): unknown {
  if (typeof value === "string") return value.replaceAll("*", "[*]");
  if (Array.isArray(value)) return value.map(suggestedPattern);
  if (!isRecord(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, suggestedPattern(part)]));
}

/** Where the pattern has a mask in the place of a secret, which no call would ever equal. */
export function maskedPlaces(pattern: unknown, path = ""): string[] {
  if (typeof pattern === "string") return pattern.includes("[redacted]") ? [path] : [];
  if (typeof pattern !== "object" || pattern === null) return [];
  return Object.entries(pattern).flatMap(([key, part]) =>
    maskedPlaces(part, path === "" ? key : `${path}.${key}`),
  );
}

/** What the rack itself writes where no person answered. */
const known: Readonly<Record<string, string>> = {
  "the call ended before anybody answered": "approvals.callGone",
  "the server stopped before anybody answered": "approvals.serverGone",
};

/** Why a question was answered so: a person's own words, or those of the rack in the language of the console. */
export function reasonOf({ reason = "" }: Approval): string {
  const key = Object.hasOwn(known, reason) ? known[reason] : undefined;
  return key === undefined ? reason : t(key);
}
