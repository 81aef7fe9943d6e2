import type { RawResult, ToolResult } from "../../tool/result.ts";
import type { CallFrame } from "../frame.ts";
import { keepResultKeys } from "../loop-sessions.ts";
import { Mask } from "../mask.ts";
import { visibleInput } from "../state.ts";

/**
 * Shortens results for a model. The whole text is kept and can be read in pages by call id; a structured value that is
 * too large is appended to it as JSON. Results for other tools are not cut, since their readers are programs.
 */
export function bound(frame: CallFrame): void {
  const draft = frame.draft;
  if (draft === undefined) return;
  const { maxContent, maxStructured } = frame.host.settings;
  const size = draft.structured === undefined ? 0 : (draft.structuredSize ?? draft.content.length);
  const isBulky = size > maxStructured;
  const fits = draft.content.length <= maxContent && !isBulky;
  if (frame.parent === undefined) keepResultKeys(frame, draft, fits);
  if (fits) return;
  // Others than the caller can read the kept text, so it is masked. For a call of a client, known secrets are masked
  // already.
  const found = new Set<string>();
  visibleInput(frame, found);
  const known = frame.parent === undefined ? Mask.none : frame.host.settings.secrets();
  const mask = known.and(found);
  const content = mask.inText(draft.content);
  const { structured, structuredSize: _, ...rest } = draft;
  const whole = isBulky ? withJson(content, mask.apply(structured)) : content;
  if (isBulky) frame.flag().truncated = true;
  if (frame.parent !== undefined) {
    frame.host.results.keep(frame.callId, whole);
    return;
  }
  const kept = structured === undefined || isBulky ? rest : { ...rest, structured };
  frame.draft = shorten(frame, { ...kept, content }, whole);
  frame.flag().truncated = true;
}

/** The result as its record has it. */
export function withoutBulk(result: ToolResult): ToolResult {
  const { structured: _, ...rest } = result;
  return rest;
}

/** Most structured results have their JSON as text already. */
function withJson(content: string, structured: unknown): string {
  const json = JSON.stringify(structured);
  return content === json || content === "" ? json : `${content}\n\n${json}`;
}

function shorten(frame: CallFrame, draft: RawResult, whole: string): RawResult {
  const { maxContent } = frame.host.settings;
  const { length } = draft.content;
  const kept = frame.host.results.keep(frame.callId, whole);
  const head = length <= maxContent ? length : cutPoint(whole, Math.floor(maxContent * 0.7));
  const tail =
    length <= maxContent ? whole.length : cutPoint(whole, whole.length - Math.floor(maxContent * 0.3));
  const hidden = tail - head;
  const where = kept
    ? `the whole result (${whole.length} characters) is kept as call ${frame.callId}; read on from offset ${head}`
    : `the whole result (${whole.length} characters) is too large to keep; ask for less`;
  const others = draft.blocks?.filter((block) => block.type !== "text");
  const shortened = `${whole.slice(0, head)}\n… ${hidden} characters left out here: ${where} …\n${whole.slice(tail)}`;
  return {
    ...draft,
    content: shortened,
    ...(others === undefined ? {} : { blocks: [{ type: "text", text: shortened }, ...others] }),
    metadata: { ...draft.metadata, truncated: { total: whole.length, head, tail, callId: frame.callId } },
  };
}

/** Never cuts a surrogate pair. */
function cutPoint(text: string, at: number): number {
  const code = text.charCodeAt(at);
  return code >= 0xdc00 && code <= 0xdfff ? at + 1 : at;
}
