import type { RegistrySnapshot, ToolInfo, ToolRegistry } from "@toolrack/core";
import { toMcpTools } from "@toolrack/core/format";
import { type MetaToolSettings, type Origin, racksKey, shownTools } from "../../calls/index.ts";
import { withCatalogue } from "../../code/index.ts";
import type { RackItem } from "../../config/index.ts";
import { RecentMap } from "../../helpers/index.ts";
import { expected } from "../wire/index.ts";
import { type EraCodec, invalidParams, paramError } from "./answers.ts";
import type { Caller } from "./caller.ts";
import type { ClientRequest } from "./session.ts";

type ListedTool = ReturnType<typeof toMcpTools>["tools"][number];

/** The tools that a caller sees at one version of the rack, sorted by name. */
interface ToolList {
  readonly tools: readonly ListedTool[];
  /** All tools that the caller may use, also those that a shortened list leaves out. */
  readonly seen: readonly ToolInfo[];
  readonly byName: ReadonlyMap<string, ListedTool>;
  /**
   * The meta-tools of the list without the names of servers, for another rack: it would switch off a tool whose
   * description changes.
   */
  readonly plain: ReadonlyMap<string, ListedTool>;
  /** Whether the list has the meta-tools in place of most tools. */
  readonly isShortened: boolean;
  /** The encoded pages of this list, by era and by the position of the page's first tool. */
  readonly pages: Map<string, Buffer>;
}

/** How many callers' lists are kept. */
const MOST = 64;

/** Makes each list once per version of the rack; callers that see the same tools share it. */
export class ToolLists {
  readonly #registry: ToolRegistry;
  readonly #meta: MetaToolSettings;
  readonly #lists = new RecentMap<string, { readonly snapshot: RegistrySnapshot; readonly list: ToolList }>(
    MOST,
  );

  constructor(registry: ToolRegistry, meta: MetaToolSettings) {
    this.#registry = registry;
    this.#meta = meta;
  }

  of(caller: Caller): ToolList {
    const snapshot = this.#registry.snapshot();
    const known = this.#lists.get(caller.key);
    if (known !== undefined && known.snapshot.version === snapshot.version) return known.list;
    const list = this.#make(snapshot, caller);
    this.#lists.set(caller.key, { snapshot, list });
    return list;
  }

  /** The version of the rack for which this caller's list was last made. Undefined when no list is kept. */
  lastMade(caller: Caller): number | undefined {
    return this.#lists.get(caller.key)?.snapshot.version;
  }

  #make(snapshot: RegistrySnapshot, caller: Caller): ToolList {
    const { seen, shown, meta } = shownTools(snapshot.list(), (tool) => caller.sees(tool), this.#meta);
    const { tools } = toMcpTools(withCatalogue(shown, seen, this.#registry));
    const byName = new Map(tools.map((tool) => [tool.name, tool]));
    const plain = new Map(toMcpTools(meta ?? []).tools.map((tool) => [tool.name, tool]));
    return { tools, seen, isShortened: meta !== undefined, byName, plain, pages: new Map() };
  }
}

/**
 * Lets upstream servers that act with the credentials of callers read their lists with those of this one. Undefined: there
 * is nothing to wait for.
 */
export type Greet = (origin: Origin, mayUse: (item: RackItem) => boolean) => Promise<unknown> | undefined;

/** The parts of the server that `tools/list` uses. */
interface ListServices {
  readonly greet: Greet;
  readonly lists: ToolLists;
  /** The ids of this rack and of the racks that it is connected to. */
  readonly racks: () => readonly string[];
}

/** Answers with a page of the list of tools. */
export async function listTools(services: ListServices, request: ClientRequest): Promise<void> {
  const { params, meta, caller, peer } = request;
  const { cursor } = params;
  if (cursor !== undefined && typeof cursor !== "string") {
    throw paramError("tools/list", "cursor", expected("string", cursor));
  }
  const greeting = services.greet(request.origin, (item) => caller.grant.mayUse(item));
  if (greeting !== undefined) await greeting;
  const bytes = toolListBytes(services, caller, peer, cursor, meta[racksKey] === true);
  // A short request makes a long answer, so the list is written only when the client has read the earlier
  // output.
  await request.reply.waitForRoom();
  request.answer(bytes);
}

/**
 * The `result` of `tools/list` as JSON, encoded once per version of the list and era. Throws an `RpcError`
 * when the cursor does not belong to this list. `isForRack`: the client is another rack, and is told the ids
 * of the racks behind this one.
 */
export function toolListBytes(
  { lists, racks }: ListServices,
  caller: Caller,
  { codec }: { readonly codec: EraCodec },
  cursor: string | undefined,
  isForRack = false,
): Buffer {
  const { pages, tools, plain } = lists.of(caller);
  const start = startOf("tools", tools, nameOf, cursor);
  const key = `${codec.era} ${start}`;
  const known = isForRack ? undefined : pages.get(key);
  if (known !== undefined) return known;
  const { items, nextCursor } = pageFrom(start, "tools", tools, nameOf);
  const result = {
    tools: items.map((tool) => codec.listed((isForRack ? plain.get(tool.name) : undefined) ?? tool)),
    ...(nextCursor === undefined ? {} : { nextCursor }),
    ...(isForRack ? { _meta: { [racksKey]: racks() } } : {}),
  };
  const bytes = Buffer.from(codec.encode("tools/list", result));
  // A client may invent cursors that start anywhere. Only the pages that our own cursors lead to are kept.
  if (!isForRack && start % PAGE_SIZE === 0) pages.set(key, bytes);
  return bytes;
}

/** How many items one page holds. */
const PAGE_SIZE = 1000;

function nameOf({ name }: ListedTool): string {
  return name;
}

/** The position in a list, sorted by `keyOf`, of the first item behind a cursor that `pageFrom` made. */
function startOf<Item>(
  list: string,
  items: readonly Item[],
  keyOf: (item: Item) => string,
  cursor: string | undefined,
): number {
  if (cursor === undefined) return 0;
  const prefix = `${list} after:`;
  const text = Buffer.from(cursor, "base64url").toString("utf8");
  if (!text.startsWith(prefix)) {
    throw invalidParams("This cursor is not one of this list. Begin the list again without a cursor.");
  }
  const start = items.findIndex((item) => keyOf(item) > text.slice(prefix.length));
  return start === -1 ? items.length : start;
}

interface Page<Item> {
  readonly items: readonly Item[];
  readonly nextCursor?: string;
}

/**
 * The cursor holds the name of the list and the key of the last item of the page before. So the cursor stays valid when
 * items are added or removed, and is refused for any other list.
 */
function pageFrom<Item>(
  start: number,
  list: string,
  items: readonly Item[],
  keyOf: (item: Item) => string,
): Page<Item> {
  const page = items.slice(start, start + PAGE_SIZE);
  const last = page.at(-1);
  if (start + PAGE_SIZE >= items.length || last === undefined) return { items: page };
  const nextCursor = Buffer.from(`${list} after:${keyOf(last)}`).toString("base64url");
  return { items: page, nextCursor };
}

/** The page of a list that begins behind a cursor. */
export function pageOf<Item>(
  list: string,
  items: readonly Item[],
  keyOf: (item: Item) => string,
  cursor: string | undefined,
): Page<Item> {
  return pageFrom(startOf(list, items, keyOf, cursor), list, items, keyOf);
}
