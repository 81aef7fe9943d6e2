const KEY = "toolrack.chat.draft.";

/** What was typed in a conversation and not sent, in this tab. The empty id stands for one that has not begun. */
export function draftOf(conversation: string): string {
  try {
    return sessionStorage.getItem(KEY + conversation) ?? "";
  } catch {
    return "";
  }
}

/** Keeps what is typed; the empty text forgets it. */
export function keepDraft(conversation: string, text: string): void {
  try {
    if (text === "") sessionStorage.removeItem(KEY + conversation);
    else sessionStorage.setItem(KEY + conversation, text);
  } catch {
    // A browser that keeps nothing is no reason to fail.
  }
}
