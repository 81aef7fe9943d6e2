import { isDeepStrictEqual } from "node:util";
import { ToolDisabledError, type ToolInfo } from "@toolrack/core";
import { isReservedFrom, racksKey, readRacks } from "../../../calls/index.ts";
import type { RackItem } from "../../../config/index.ts";
import { isRecord } from "../../../helpers/index.ts";
import { commandFor } from "../managed-server.ts";
import type { ListName, UpstreamSession } from "../protocol/session.ts";
import { type Listed, usableAnnotations, usablePrompt, usableResource, usableTemplate } from "./schema.ts";

/** A tool as its server describes it. Of the right form, and not to be trusted in any part. */
export interface UpstreamTool {
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly inputSchema: Readonly<Record<string, unknown>>;
  readonly outputSchema?: Readonly<Record<string, unknown>>;
  readonly annotations?: Readonly<Record<string, unknown>>;
  /** The server works on it only as a task, and refuses a call that is to be answered at once. */
  readonly isTask?: true;
  readonly _meta?: Readonly<Record<string, unknown>>;
}

/** Something of a server that cannot be used, and why. */
export interface RefusedItem {
  readonly name: string;
  readonly reason: string;
}

interface Lists<Tool> {
  readonly tools: readonly Tool[];
  readonly prompts: readonly Listed[];
  readonly resources: readonly Listed[];
  readonly templates: readonly Listed[];
}

/** What a server offers, as it was last seen. */
export interface Catalogue extends Lists<UpstreamTool> {
  /** What it listed and cannot be used. */
  readonly refused?: readonly RefusedItem[];
  /** Which of its lists were not read to their ends, and why. */
  readonly cut?: readonly string[];
  readonly serverInfo?: { readonly name: string; readonly version: string };
  readonly instructions?: string;
  /** Of a server that is a rack: its own id, and those of the racks that it leads to. */
  readonly racks?: readonly string[];
  /** Milliseconds since the epoch. */
  readonly at: number;
}

export const emptyCatalogue: Catalogue = { tools: [], prompts: [], resources: [], templates: [], at: 0 };

const MOST_REFUSED = 50;
/** Far more than a schema may have, and few enough for whatever compares, shows or keeps it. */
const DEEPEST = 1_000;

/**
 * Lists as a server gave them, made such that whoever is shown them can read them: what is optional and of a wrong form
 * is taken out of an item, and an item that cannot be used without it is refused.
 */
export function checkCatalogue(
  given: Lists<object>,
): Lists<UpstreamTool> & { readonly refused: readonly RefusedItem[] } {
  const refused: RefusedItem[] = [];
  const sift = <Item>(
    what: string,
    items: readonly object[],
    make: (item: Listed) => Item | string,
    keyOf: (item: Item) => unknown,
  ): Item[] => {
    const usable = new Map<unknown, Item>();
    for (const item of items as readonly Listed[]) {
      const made = make(item);
      const reason = typeof made === "string" ? made : undefined;
      if (typeof made !== "string" && !usable.has(keyOf(made))) usable.set(keyOf(made), made);
      else if (refused.length < MOST_REFUSED) {
        refused.push({
          name: typeof item.name === "string" && item.name !== "" ? item.name.slice(0, 200) : `a ${what}`,
          reason: reason ?? `The server lists more than one ${what} like this. The first one counts.`,
        });
      }
    }
    return [...usable.values()];
  };
  return {
    tools: sift("tool", given.tools, usableTool, ({ name }) => name),
    prompts: sift("prompt", given.prompts, usablePrompt, ({ name }) => name),
    resources: sift("resource", given.resources, usableResource, ({ uri }) => uri),
    templates: sift("resource template", given.templates, usableTemplate, ({ uriTemplate }) => uriTemplate),
    refused,
  };
}

/** Which lists are not what they were. */
function changedLists(before: Catalogue, after: Catalogue): ListName[] {
  const isSame = (...lists: (keyof Lists<unknown>)[]) =>
    lists.every((list) => isDeepStrictEqual(before[list], after[list]));
  return [
    ...(isSame("tools") ? [] : ["tools" as const]),
    ...(isSame("prompts") ? [] : ["prompts" as const]),
    ...(isSame("resources", "templates") ? [] : ["resources" as const]),
  ];
}

function usableTool(item: Listed): UpstreamTool | string {
  const { name, title, description, inputSchema, outputSchema, annotations, execution, isTask, _meta } = item;
  if (typeof name !== "string" || name === "") return "It has no name.";
  if (nestsDeeper(item, DEEPEST)) return `Its definition nests more than ${DEEPEST} levels.`;
  // The second is how it was kept here.
  const isTaskOnly = (isRecord(execution) && execution.taskSupport === "required") || isTask === true;
  const hints = usableAnnotations(annotations);
  const shown = typeof title === "string" ? title : hints?.title;
  return {
    name,
    ...(typeof shown === "string" ? { title: shown } : {}),
    ...(typeof description === "string" ? { description } : {}),
    inputSchema: isRecord(inputSchema) ? inputSchema : { type: "object" },
    ...(isRecord(outputSchema) ? { outputSchema } : {}),
    ...(hints === undefined ? {} : { annotations: hints }),
    ...(isTaskOnly ? { isTask: true } : {}),
    ...(isRecord(_meta) ? { _meta } : {}),
  };
}

const allLists: readonly ListName[] = ["tools", "prompts", "resources"];

interface LiveCatalogueParts {
  /** From an earlier time. */
  readonly known: Catalogue | undefined;
  /** In milliseconds, for each list. */
  readonly limit: () => number;
  readonly onProblem: (text: string) => void;
  /** Throws for one that is not to be used at all. */
  readonly check: (catalogue: Catalogue) => void;
  /** Shows what is new. What it throws for is not taken over. */
  readonly onChange: (catalogue: Catalogue, changed: readonly ListName[]) => void;
}

/** What a server offers, as it was last read. */
export class LiveCatalogue {
  readonly #parts: LiveCatalogueParts;
  #current: Catalogue;

  constructor(parts: LiveCatalogueParts) {
    this.#parts = parts;
    this.#current = parts.known ?? emptyCatalogue;
  }

  get current(): Catalogue {
    return this.#current;
  }

  async read(session: UpstreamSession): Promise<Catalogue> {
    const { limit, onProblem, check } = this.#parts;
    const catalogue = await readCatalogue(session, { limit: limit(), before: this.#current, onProblem });
    check(catalogue);
    return catalogue;
  }

  /** What cannot be shown is not taken over: then what was shown before stays. */
  take(catalogue: Catalogue, changed: readonly ListName[] = allLists): void {
    const before = this.#current;
    this.#current = catalogue;
    try {
      this.#parts.onChange(catalogue, changed);
    } catch (thrown) {
      this.#current = before;
      throw thrown;
    }
  }

  /** Reads everything again. What was read over a session that is used no longer when it comes counts for nothing. */
  async update(session: UpstreamSession, isUsed: () => boolean): Promise<void> {
    const before = this.#current;
    const catalogue = await this.read(session);
    if (!isUsed()) return;
    const changed = changedLists(before, catalogue);
    if (changed.length > 0) this.take(catalogue, changed);
    else this.#current = catalogue;
  }
}

interface ReadCatalogueOptions {
  /** That of each list, in milliseconds. */
  readonly limit: number;
  /** What was known before; a list that cannot be read now stays as it was. */
  readonly before: Catalogue;
  readonly onProblem: (text: string) => void;
}

/** What a server offers now. Only the tools must be readable. */
async function readCatalogue(
  session: UpstreamSession,
  { limit, before, onProblem }: ReadCatalogueOptions,
): Promise<Catalogue> {
  const { tools, prompts, resources } = session.capabilities;
  const cut: string[] = [];
  const onCut = (reason: string) => {
    cut.push(reason);
    onProblem(reason);
  };
  let racks: readonly string[] = [];
  const onMeta = (meta: Readonly<Record<string, unknown>>) => {
    racks = readRacks(meta[racksKey]);
  };
  const list = async (wanted: unknown, method: string, member: string, more = {}) =>
    wanted === undefined ? [] : session.list(method, member, { timeout: limit, onCut, ...more });
  const optional = (
    wanted: unknown,
    method: string,
    member: string,
    known: readonly Readonly<Record<string, unknown>>[],
  ) =>
    list(wanted, method, member).catch((error: Error) => {
      onProblem(`${method} could not be read, and what was known before is kept: ${error.message}`);
      return known;
    });
  const [toolList, promptList, resourceList, templateList] = await Promise.all([
    list(tools, "tools/list", "tools", { meta: { [racksKey]: true }, onMeta }),
    optional(prompts, "prompts/list", "prompts", before.prompts),
    optional(resources, "resources/list", "resources", before.resources),
    optional(resources, "resources/templates/list", "resourceTemplates", before.templates),
  ]);
  const { serverInfo, instructions } = session;
  return {
    ...checkCatalogue({
      tools: toolList,
      prompts: promptList,
      resources: resourceList,
      templates: templateList,
    }),
    ...(cut.length === 0 ? {} : { cut: cut.sort() }),
    ...(serverInfo === undefined
      ? {}
      : { serverInfo: { name: serverInfo.name, version: serverInfo.version } }),
    ...(instructions === undefined ? {} : { instructions }),
    ...(racks.length === 0 ? {} : { racks }),
    at: Date.now(),
  };
}

/** Of one server. Those that were linked to longest ago are forgotten first. */
const MOST_LINKS = 1_000;
/** Longer ones are no addresses but what they stand for, and would be kept here as such. */
const LONGEST_URI = 8_192;
/** Whichever upstream server it is. */
const SOURCE = "mcp:";

interface Link {
  /** The tools and prompts in whose results it was, by their names on the rack. */
  readonly givers: Map<string, RackItem>;
  /** On the `performance` clock. */
  at: number;
}

/** The resources that results of a server linked to. They need not be in any list, and can be read all the same. */
export class LinkedResources {
  readonly #links = new Map<string, Link>();

  /** Takes note of a block of a result that is a link, or holds a resource. */
  note(block: Readonly<Record<string, unknown>>, giver: RackItem): void {
    const { uri } = block.type === "resource_link" ? block : ((block.resource ?? {}) as { uri?: unknown });
    if (typeof uri !== "string" || uri.length > LONGEST_URI || isReservedFrom(SOURCE, uri)) return;
    const link = this.#links.get(uri) ?? { givers: new Map(), at: 0 };
    link.givers.set(giver.name, giver);
    link.at = performance.now();
    this.#links.delete(uri);
    this.#links.set(uri, link);
    const oldest = this.#links.keys().next();
    if (this.#links.size > MOST_LINKS && oldest.value !== undefined) this.#links.delete(oldest.value);
  }

  /** When it was last linked to by something that the reader may use; undefined when it never was. */
  linkedAt(uri: string, mayUse: (item: RackItem) => boolean): number | undefined {
    const link = this.#links.get(uri);
    return link !== undefined && [...link.givers.values()].some(mayUse) ? link.at : undefined;
  }

  has(uri: string): boolean {
    return this.#links.has(uri);
  }
}

/**
 * What a record says about a name that comes from elsewhere. Every object also has members that nobody gave it, such as
 * `constructor`, and a server may name its tools like them.
 */
export function ownMember<Value>(record: Readonly<Record<string, Value>>, name: string): Value | undefined {
  return Object.hasOwn(record, name) ? record[name] : undefined;
}

/** Whether something stands more than so many levels inside the value. With a list of its own: it may be deeper than the stack. */
function nestsDeeper(value: unknown, levels: number): boolean {
  let level: unknown[] = [value];
  for (let depth = 0; depth <= levels; depth++) {
    level = level.flatMap((part) => (typeof part === "object" && part !== null ? Object.values(part) : []));
    if (level.length === 0) return false;
  }
  return true;
}

const LONGEST = 400;

/** A message may name a place in a schema of a server, which may be as long as the server likes. */
export function shortened(message: string): string {
  if (message.length <= LONGEST) return message;
  const half = LONGEST / 2;
  return `${message.slice(0, half)} … ${message.slice(-half)}`;
}

/** A tool of a server that is switched off. It refuses by itself too, whatever switches the tool on again. */
export function switchedOff(tool: ToolInfo, key: string): ToolInfo {
  const reason = `The MCP server "${key}" is switched off, and its tools with it. Switch it on: ${commandFor("enable", key)}`;
  return {
    ...tool,
    execute: async () => {
      throw new ToolDisabledError(reason, { toolName: tool.name });
    },
    metadata: { ...tool.metadata, disabledReason: reason },
    disabled: true,
  };
}
