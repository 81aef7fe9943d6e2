import { ProtocolError, ProtocolErrorCode } from "@modelcontextprotocol/server";

/** How many things one answer lists. */
export const pageSize = 1000;

/**
 * A page of a list that is sorted by `keyOf`. The cursor names the last thing of the page before, so that it holds
 * when things come and go in between.
 */
export function pageOf<Item>(
  items: readonly Item[],
  keyOf: (item: Item) => string,
  cursor: string | undefined,
): { readonly items: readonly Item[]; readonly nextCursor?: string } {
  const after = cursor === undefined ? undefined : readCursor(cursor);
  if (after === undefined && items.length <= pageSize) return { items };
  const at = after === undefined ? 0 : items.findIndex((item) => keyOf(item) > after);
  if (at === -1) return { items: [] };
  const page = items.slice(at, at + pageSize);
  const last = page.at(-1);
  if (at + pageSize >= items.length || last === undefined) return { items: page };
  return { items: page, nextCursor: Buffer.from(`after:${keyOf(last)}`).toString("base64url") };
}

function readCursor(cursor: string): string {
  const text = Buffer.from(cursor, "base64url").toString("utf8");
  if (text.startsWith("after:")) return text.slice("after:".length);
  throw new ProtocolError(
    ProtocolErrorCode.InvalidParams,
    "This cursor is not one of this server. Begin the list again without a cursor.",
  );
}
