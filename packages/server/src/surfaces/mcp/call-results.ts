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
  const offset = Number(found[2] ?? 0);
  const { calls } = parts.store;
  await parts.recorder.flush();
  const call = await calls.get(callId);
  if (call === undefined || !(viewer.grant.admin || isOwn(call, viewer))) return undefined;
  const page = await calls.readResult(callId, offset, PAGE);
  if (page === undefined) return undefined;
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

/** Only what a client called itself is ever linked to it. */
function isOwn(
  call: { readonly caller: string; readonly parentCallId?: string },
  { grant }: Viewer,
): boolean {
  return call.parentCallId === undefined && call.caller === grant.caller;
}
