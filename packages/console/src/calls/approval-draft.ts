import { ref } from "vue";
import type { Approval } from "../api/index.ts";
import { isRecord, t } from "../text/index.ts";
import { Recent } from "../ui/index.ts";

/** The number of drafts is limited, because drafts of approvals decided elsewhere are not removed. */
const drafts = new Recent<ReturnType<typeof newDraft>>({ most: 200 });

/**
 * The draft of an approval: the same on every page that shows the approval, until `forgetDraft` removes it.
 */
export function draftOf({ id, input }: Pick<Approval, "id" | "input">): ReturnType<typeof newDraft> {
  const draft = drafts.get(id) ?? newDraft(input);
  drafts.set(id, draft);
  return draft;
}

/** What a person has entered for an approval before deciding: edited arguments and the chosen answer. */
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

/** A pattern that matches exactly these arguments; stars in them are escaped. The person may widen it. */
export function suggestedPattern(value: unknown): unknown {
  if (typeof value === "string") return value.replaceAll("*", "[*]");
  if (Array.isArray(value)) return value.map(suggestedPattern);
  if (!isRecord(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, suggestedPattern(part)]));
}

/** Paths in the pattern that hold a mask instead of a secret, which no call would ever match. */
export function maskedPlaces(pattern: unknown, path = ""): string[] {
  if (typeof pattern === "string") return pattern.includes("[redacted]") ? [path] : [];
  if (typeof pattern !== "object" || pattern === null) return [];
  return Object.entries(pattern).flatMap(([key, part]) =>
    maskedPlaces(part, path === "" ? key : `${path}.${key}`),
  );
}

/** Reasons that the rack writes when no person answered. */
const known: Readonly<Record<string, string>> = {
  "the call ended before anybody answered": "approvals.callGone",
  "the server stopped before anybody answered": "approvals.serverGone",
};

/** The reason of a decision: the person's own words, or the rack's reason translated. */
export function reasonOf({ reason = "" }: Approval): string {
  const key = Object.hasOwn(known, reason) ? known[reason] : undefined;
  return key === undefined ? reason : t(key);
}
