import type { RawResult } from "../../tool/to-result.ts";
import type { CallFrame } from "../frame.ts";
import { keepResultKeys } from "../loop-sessions.ts";
import { SecretMask } from "../secret-mask.ts";
import { visibleInput } from "../state-of.ts";

/**
 * Caps what goes to a model. The whole text is kept and can be read in pages by call id. A call made by another
 * tool is not cut: its reader is a program.
 */
export function bound(frame: CallFrame): void {
  const draft = frame.draft;
  if (draft === undefined) return;
  const fits = draft.content.length <= frame.host.settings.maxContent;
  if (frame.parent === undefined) keepResultKeys(frame, draft, fits);
  if (fits) return;
  // What is kept can be read by others than the caller. Of a call that no tool made, known secrets are masked already.
  const found = new Set<string>();
  visibleInput(frame, found);
  const known = frame.parent === undefined ? SecretMask.empty : frame.host.settings.secrets();
  const content = new SecretMask(found).apply(known.apply(draft.content));
  if (frame.parent !== undefined) {
    frame.host.results.keep(frame.callId, content);
    return;
  }
  frame.draft = shorten(frame, { ...draft, content });
  frame.flag().truncated = true;
}

function shorten(frame: CallFrame, draft: RawResult): RawResult {
  const { maxContent } = frame.host.settings;
  const { content } = draft;
  const kept = frame.host.results.keep(frame.callId, content);
  const head = cutPoint(content, Math.floor(maxContent * 0.7));
  const tail = cutPoint(content, content.length - Math.floor(maxContent * 0.3));
  const hidden = tail - head;
  const where = kept
    ? `the whole result (${content.length} characters) is kept as call ${frame.callId}; read on from offset ${head}`
    : `the whole result (${content.length} characters) is too large to keep; ask for less`;
  const others = draft.blocks?.filter((block) => block.type !== "text");
  const shortened = `${content.slice(0, head)}\n… ${hidden} characters left out here: ${where} …\n${content.slice(tail)}`;
  return {
    ...draft,
    content: shortened,
    ...(others === undefined ? {} : { blocks: [{ type: "text", text: shortened }, ...others] }),
    metadata: { ...draft.metadata, truncated: { total: content.length, head, tail, callId: frame.callId } },
  };
}

/** Never between the two halves of a character. */
function cutPoint(text: string, at: number): number {
  const code = text.charCodeAt(at);
  return code >= 0xdc00 && code <= 0xdfff ? at + 1 : at;
}
