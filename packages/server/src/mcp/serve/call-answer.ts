import { toMcpResult } from "@toolrack/core";
import type { CallRecorder, EndedCall, ResourceAnswer } from "../../calls/index.ts";
import type { Store } from "../../store/index.ts";
import type { CallAnswer } from "../wire/index.ts";
import type { Caller } from "./caller.ts";

interface AnswerOptions {
  /** Whether the client supports resource links. */
  readonly canLink: boolean;
  /** Whether the list shows an output schema for the tool. */
  readonly hasOutputSchema: boolean;
}

/** The result in the form of the protocol. A truncated result comes with a link to the whole. */
export function toolAnswer(ended: EndedCall, { canLink, hasOutputSchema }: AnswerOptions): CallAnswer {
  const { callId, record, result } = ended;
  const answer = hasOutputSchema ? withStructuredContent(toMcpResult(result), ended) : toMcpResult(result);
  if (record.flags?.truncated !== true || !canLink) return answer;
  const link = {
    type: "resource_link",
    uri: resultUri(callId),
    name: `The whole result of ${record.toolName}`,
    mimeType: "text/plain",
  };
  return { ...answer, content: [...answer.content, link] };
}

/**
 * Clients refuse an answer without a structured value when the tool has an output schema. So the answer has the whole
 * value when only the text was truncated, and is an error when the value itself is too large.
 */
function withStructuredContent(answer: CallAnswer, { record, result }: EndedCall): CallAnswer {
  const { type, structured } = result;
  if (answer.structuredContent !== undefined || type !== "json") return answer;
  if (structured !== undefined) return { ...answer, structuredContent: structured };
  const text = `The call of ${record.toolName} succeeded, but its structured result is too large to be answered with. Its beginning and end follow. Ask for less, or read the whole by the call's id.`;
  return { ...answer, content: [{ type: "text", text }, ...answer.content], isError: true };
}

/** How many characters of a result one read gives. */
const PAGE = 100_000;

export const resultTemplate = {
  uriTemplate: "toolrack://calls/{callId}/result",
  name: "call-result",
  title: "Whole result of a call",
  description:
    "The whole text of a result that was too long to be answered with. Each part names the next one in `_meta`.",
  mimeType: "text/plain",
};

function resultUri(callId: string, offset = 0): string {
  return `toolrack://calls/${callId}/result${offset === 0 ? "" : `?offset=${offset}`}`;
}

/** A part of a result's text, for the caller who made the call and for admins. Undefined when this caller has no such result. */
export async function readCallResult(
  { store, recorder }: { readonly store: Pick<Store, "calls">; readonly recorder: CallRecorder },
  caller: Caller,
  uri: string,
): Promise<ResourceAnswer | undefined> {
  const found = /^toolrack:\/\/calls\/([^/?#%]+)\/result(?:\?offset=(\d{1,15}))?$/.exec(uri);
  if (found === null) return undefined;
  const callId = found[1]!;
  const { calls } = store;
  await recorder.flush();
  const call = await calls.get(callId);
  if (call === undefined || !(caller.grant.admin || isOwn(call, caller))) return undefined;
  const page = await readWhole((at) => calls.readResult(callId, at, PAGE), Number(found[2] ?? 0));
  if (page === undefined) return undefined;
  const { offset } = page;
  const next = offset + page.text.length;
  return {
    contents: [
      {
        uri,
        mimeType: "text/plain",
        text: page.text,
        _meta: {
          "toolrack/offset": offset,
          "toolrack/total": page.total,
          ...(next < page.total && page.text !== "" ? { "toolrack/next": resultUri(callId, next) } : {}),
        },
      },
    ],
  };
}

interface Page {
  readonly text: string;
  readonly total: number;
}

/**
 * Reads a page that does not split a surrogate pair. When the offset is inside a pair, the page starts one earlier; when
 * the page would end inside a pair, the pair goes to the next page.
 */
async function readWhole(
  read: (offset: number) => Promise<Page | undefined>,
  offset: number,
): Promise<(Page & { readonly offset: number }) | undefined> {
  const page = await read(offset);
  if (page === undefined) return undefined;
  const { text, total } = page;
  if (offset > 0 && isSecondHalf(text.charCodeAt(0))) return readWhole(read, offset - 1);
  const isCut = offset + text.length < total && isFirstHalf(text.charCodeAt(text.length - 1));
  return { text: isCut ? text.slice(0, -1) : text, total, offset };
}

function isFirstHalf(code: number): boolean {
  return code >= 0xd800 && code <= 0xdbff;
}

function isSecondHalf(code: number): boolean {
  return code >= 0xdc00 && code <= 0xdfff;
}

/** Clients get links only for calls that they made directly. */
function isOwn(
  call: { readonly caller: string; readonly parentCallId?: string },
  { grant }: Caller,
): boolean {
  return call.parentCallId === undefined && call.caller === grant.caller;
}
