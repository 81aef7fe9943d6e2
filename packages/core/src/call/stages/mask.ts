import type { CallFrame } from "../frame.ts";
import { maskValue } from "../mask-value.ts";

/**
 * Hides known secrets from whoever reads the result. A call made by another tool keeps them: its reader is a program,
 * which may need them; what others are told of it is masked on the way.
 */
export function mask(frame: CallFrame): void {
  const { draft, parent, host } = frame;
  if (draft === undefined || parent !== undefined) return;
  frame.draft = maskValue(draft, host.settings.secrets());
}
