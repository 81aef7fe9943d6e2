import { type Ref, ref } from "vue";
import type { Approval } from "../../api/types.ts";
import type { Scope } from "./suggested-pattern.ts";

/** What somebody has made of a question and not sent yet. */
export interface ApprovalDraft {
  /** The arguments, with what was changed of them. */
  readonly value: Ref<unknown>;
  readonly scope: Ref<Scope>;
  readonly pattern: Ref<string>;
  readonly isPatternTouched: Ref<boolean>;
  readonly isExact: Ref<boolean>;
  readonly reason: Ref<string>;
  readonly isDenying: Ref<boolean>;
}

/** Questions that ended while nobody looked leave theirs behind. */
const MOST = 200;
const drafts = new Map<string, ApprovalDraft>();

/** The draft of a question: the same one wherever and however often it is shown, until it is forgotten. */
export function draftOf({ id, input }: Pick<Approval, "id" | "input">): ApprovalDraft {
  const known = drafts.get(id);
  if (known !== undefined) return known;
  const made: ApprovalDraft = {
    value: ref<unknown>(input),
    scope: ref<Scope>("once"),
    pattern: ref(""),
    isPatternTouched: ref(false),
    isExact: ref(true),
    reason: ref(""),
    isDenying: ref(false),
  };
  const [oldest] = drafts.keys();
  if (drafts.size >= MOST && oldest !== undefined) drafts.delete(oldest);
  drafts.set(id, made);
  return made;
}

export function forgetDraft(id: string): void {
  drafts.delete(id);
}
