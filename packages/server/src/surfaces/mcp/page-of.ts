import { ProtocolError, ProtocolErrorCode } from "@modelcontextprotocol/server";

/** How many things one answer lists. */
export const pageSize = 1000;

/**
 * A page of a list that is sorted by `keyOf`. The cursor names the list and the last thing of the page before, so that
 * it holds when things come and go in between, and is none of any other list.
 */
export function pageOf<Item>(
  list: string,
  items: readonly Item[],
  keyOf: (item: Item) => string,
  cursor: string | undefined,
): { readonly items: readonly Item[]; readonly nextCursor?: string } {
  const at = startOfPage(list, items, keyOf, cursor);
  if (at === undefined) {
    throw new ProtocolError(
      ProtocolErrorCode.InvalidParams,
      "This cursor is not one of this list. Begin the list again without a cursor.",
    );
  }
  if (at === 0 && items.length <= pageSize) return { items };
  const page = items.slice(at, at + pageSize);
  const last = page.at(-1);
  if (at + pageSize >= items.length || last === undefined) return { items: page };
  return { items: page, nextCursor: Buffer.from(`${prefixOf(list)}${keyOf(last)}`).toString("base64url") };
}

/** Where in the list the page of this cursor begins. Undefined when it is no cursor of this list. */
export function startOfPage<Item>(
  list: string,
  items: readonly Item[],
  keyOf: (item: Item) => string,
  cursor: string | undefined,
): number | undefined {
  if (cursor === undefined) return 0;
  const text = Buffer.from(cursor, "base64url").toString("utf8");
  const prefix = prefixOf(list);
  if (!text.startsWith(prefix)) return undefined;
  const after = text.slice(prefix.length);
  const at = items.findIndex((item) => keyOf(item) > after);
  return at === -1 ? items.length : at;
}

function prefixOf(list: string): string {
  return `${list} after:`;
}
