import type { StoredApproval } from "../../../store/approvals/approval-store.ts";
import type { StoredCall } from "../../../store/store.ts";
import type { ToolPart } from "./message-part.ts";

/** Of a call that a tool made. */
export function whatBecameOf(call: StoredCall, questions: readonly StoredApproval[]): string {
  const { callId, outcome, error } = call;
  if (outcome === "completed") return "was completed";
  if (
    questions.some(
      (question) => question.callId === callId && question.stage === "before" && question.state !== "allowed",
    )
  )
    return "was not run, because nobody had agreed to it";
  if (outcome === "error") return `failed (${error?.code ?? "error"})`;
  return "was under way, and it is not known whether it did its work";
}

export function refusedInside({ toolName, state, reason }: Partial<StoredApproval> = {}): string {
  const said = reason === undefined ? "" : ` (${reason})`;
  const answer = state === "denied" ? `a person said no${said}` : "nobody answered in time";
  return `the server ended while it waited for consent to call "${toolName ?? "a tool"}", and ${answer}`;
}

/** In the words of a call that was refused while its process lived. */
export function refusalOf({ name }: ToolPart, approval: StoredApproval | undefined): string {
  if (approval?.state === "denied") {
    const because = approval.reason ? `: ${approval.reason}` : ", without giving a reason";
    return `Running "${name}" was refused${because}. It did not run. Do not repeat the call unchanged.`;
  }
  return `"${name}" was not run: nobody answered the question in time.`;
}
