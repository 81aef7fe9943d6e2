import type { ResourceAnswer } from "../../offerings/offering-source.ts";
import type { McpParts } from "./mcp-parts.ts";
import type { Viewer } from "./viewer.ts";

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

export function resultUri(callId: string, offset = 0): string {
  return `toolrack://calls/${callId}/result${offset === 0 ? "" : `?offset=${offset}`}`;
}

/** A part of the text of a result, for who made the call. Undefined when there is none for this viewer. */
export async function readCallResult(
  parts: Pick<McpParts, "store" | "recorder">,
  viewer: Viewer,
  uri: string,
): Promise<ResourceAnswer | undefined> {
  const found = /^toolrack:\/\/calls\/([^/?#%]+)\/result(?:\?offset=(\d{1,15}))?$/.exec(uri);
  if (found === null) return undefined;
  const callId = found[1]!;
  const { calls } = parts.store;
  await parts.recorder.flush();
  const call = await calls.get(callId);
  if (call === undefined || !(viewer.grant.admin || isOwn(call, viewer))) return undefined;
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
 * A page of whole characters. Some are written as two, of which either alone is none: a page begins with the first of
 * them, before the place that was asked for, and leaves one that it has only the first of to the next page.
 */
async function readWhole(
  read: (offset: number) => Promise<Page | undefined>,
  offset: number,
): Promise<(Page & { readonly offset: number }) | undefined> {
  const page = await read(offset);
  if (page === undefined) return undefined;
  if (offset > 0 && isSecondHalf(page.text.charCodeAt(0))) {
    const before = await read(offset - 1);
    if (before !== undefined && isFirstHalf(before.text.charCodeAt(0))) return cut(before, offset - 1);
  }
  return cut(page, offset);
}

function cut({ text, total }: Page, offset: number): Page & { readonly offset: number } {
  const isCut = offset + text.length < total && isFirstHalf(text.charCodeAt(text.length - 1));
  return { text: isCut ? text.slice(0, -1) : text, total, offset };
}

function isFirstHalf(code: number): boolean {
  return code >= 0xd800 && code <= 0xdbff;
}

function isSecondHalf(code: number): boolean {
  return code >= 0xdc00 && code <= 0xdfff;
}

/** Only what a client called itself is ever linked to it. */
function isOwn(
  call: { readonly caller: string; readonly parentCallId?: string },
  { grant }: Viewer,
): boolean {
  return call.parentCallId === undefined && call.caller === grant.caller;
}
