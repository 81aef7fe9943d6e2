import { isDeepStrictEqual } from "node:util";
import { isReservedFrom, isUsableTemplate, racksKey, readRacks } from "../../../calls/index.ts";
import { isRecord } from "../../../helpers/index.ts";
import type { ListName, UpstreamSession } from "../protocol/session.ts";
import { cleanText } from "./schema.ts";

/** A list item from a server, or a part of one, unchecked. */
export type Listed = Readonly<Record<string, unknown>>;

/** A tool as its server describes it. The types are checked; the content is not to be trusted. */
export interface UpstreamTool {
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly inputSchema: Listed;
  readonly outputSchema?: Listed;
  readonly annotations?: Listed;
  /** The server runs this tool only as a task. */
  readonly isTask?: true;
  readonly _meta?: Listed;
}

/** A listed item that cannot be used, and why. */
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
  /** Listed items that cannot be used. */
  readonly refused?: readonly RefusedItem[];
  /** Which lists were not read completely, and why. */
  readonly cut?: readonly string[] | undefined;
  readonly serverInfo?: { readonly name: string; readonly version: string } | undefined;
  readonly instructions?: string | undefined;
  /** If the server is a rack: its id and the ids of the racks behind it. */
  readonly racks?: readonly string[];
  /** Milliseconds since the epoch. */
  readonly at: number;
}

export const emptyCatalogue: Catalogue = { tools: [], prompts: [], resources: [], templates: [], at: 0 };

/** Reads what a server offers. Rejects only when the tools cannot be read; any other unreadable list stays as `before`. */
export async function readCatalogue(
  session: UpstreamSession,
  { timeout, before, onProblem }: { timeout: number; before: Catalogue; onProblem: (text: string) => void },
): Promise<Catalogue> {
  const { capabilities, serverInfo, instructions } = session;
  const cut: string[] = [];
  const onCut = (reason: string) => {
    cut.push(reason);
    onProblem(reason);
  };
  let racks: readonly string[] = [];
  const onMeta = (meta: Listed) => {
    racks = readRacks(meta[racksKey]);
  };
  const list = async (kind: ListName, method: string, member: string, more = {}) =>
    capabilities[kind] === undefined ? [] : session.list(method, member, { timeout, onCut, ...more });
  const optional = (kind: ListName, method: string, member: string, known: readonly Listed[]) =>
    list(kind, method, member).catch((error: Error) => {
      onProblem(`${method} could not be read, and what was known before is kept: ${error.message}`);
      return known;
    });
  const [tools, prompts, resources, templates] = await Promise.all([
    list("tools", "tools/list", "tools", { meta: { [racksKey]: true }, onMeta }),
    optional("prompts", "prompts/list", "prompts", before.prompts),
    optional("resources", "resources/list", "resources", before.resources),
    optional("resources", "resources/templates/list", "resourceTemplates", before.templates),
  ]);
  return {
    ...checkCatalogue({ tools, prompts, resources, templates }),
    cut: cut.length === 0 ? undefined : cut.sort(),
    serverInfo: serverInfo && { name: serverInfo.name, version: serverInfo.version },
    instructions,
    racks,
    at: Date.now(),
  };
}

export function changedLists(before: Catalogue, after: Catalogue): ListName[] {
  const hasChanged = (list: keyof Lists<unknown>) => !isDeepStrictEqual(before[list], after[list]);
  return [
    ...(hasChanged("tools") ? ["tools" as const] : []),
    ...(hasChanged("prompts") ? ["prompts" as const] : []),
    ...(hasChanged("resources") || hasChanged("templates") ? ["resources" as const] : []),
  ];
}

const MOST_REFUSED = 50;
/** More levels than any valid schema has, and few enough for code that walks it recursively. */
const DEEPEST = 1_000;
/** The same for all upstream servers: none of them owns a URI scheme. */
export const SOURCE = "mcp:";

/**
 * Checks the lists of a server, so that every client can read them. Removes optional members of a wrong type, and refuses
 * items whose required members are wrong.
 */
export function checkCatalogue(
  given: Lists<Listed | UpstreamTool>,
): Lists<UpstreamTool> & { readonly refused: readonly RefusedItem[] } {
  const refused: RefusedItem[] = [];
  const checkItems = <Item>(
    what: string,
    items: readonly (Listed | UpstreamTool)[],
    make: (item: Listed) => Item | string,
    keyOf: (item: Item) => unknown,
  ): Item[] => {
    const usable = new Map<unknown, Item>();
    for (const item of items) {
      const made = make({ ...item });
      if (typeof made !== "string" && !usable.has(keyOf(made))) usable.set(keyOf(made), made);
      else if (refused.length < MOST_REFUSED) {
        const twice = `The server lists more than one ${what} like this. The first one counts.`;
        refused.push({
          name: typeof item.name === "string" && item.name !== "" ? item.name.slice(0, 200) : `a ${what}`,
          reason: typeof made === "string" ? made : twice,
        });
      }
    }
    return [...usable.values()];
  };
  return {
    tools: checkItems("tool", given.tools, usableTool, ({ name }) => name),
    prompts: checkItems("prompt", given.prompts, usablePrompt, ({ name }) => name),
    resources: checkItems("resource", given.resources, usableResource, ({ uri }) => uri),
    templates: checkItems(
      "resource template",
      given.templates,
      usableTemplate,
      ({ uriTemplate }) => uriTemplate,
    ),
    refused,
  };
}

function usableTool(item: Listed): UpstreamTool | string {
  const { name, title, description, inputSchema, outputSchema, annotations, execution, isTask, _meta } = item;
  if (typeof name !== "string" || name === "") return "It has no name.";
  if (nestsDeeper(item, DEEPEST)) return `Its definition nests more than ${DEEPEST} levels.`;
  // `isTask` comes from a stored catalogue, `execution` from the server.
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

/** The annotations of a tool without those of a wrong type. */
export function usableAnnotations(given: unknown): Listed | undefined {
  if (!isRecord(given)) return undefined;
  const entries = Object.entries(given).flatMap(([key, value]) => {
    if (key === "title") return typeof value === "string" ? [[key, cleanText(value)]] : [];
    return !/Hint$/.test(key) || typeof value === "boolean" ? [[key, value]] : [];
  });
  return Object.fromEntries(entries);
}

/** The checked prompt, or a text that says why it cannot be used. */
function usablePrompt(item: Listed): Listed | string {
  const { name, arguments: args } = item;
  if (typeof name !== "string" || name === "") return "It has no name.";
  if (args === undefined || args === null) return { name, ...described(item) };
  if (!Array.isArray(args) || !args.every((one) => isRecord(one) && typeof one.name === "string")) {
    return "Its arguments are not a list of things with names, so nobody could fill them in.";
  }
  const usableArgument = ({ name: argument, required, ...rest }: Listed) => ({
    name: argument,
    ...cleanTexts(rest, "title", "description"),
    ...(typeof required === "boolean" ? { required } : {}),
  });
  return { name, ...described(item), arguments: args.map(usableArgument) };
}

function usableResource(item: Listed): Listed | string {
  const { uri, name, size } = item;
  if (typeof uri !== "string" || uri === "") return "It has no uri.";
  if (isReservedFrom(SOURCE, uri)) return reserved(uri);
  const shown = typeof name === "string" ? cleanText(name) : uri;
  return { uri, name: shown, ...described(item), ...(typeof size === "number" ? { size } : {}) };
}

function usableTemplate(item: Listed): Listed | string {
  const { uriTemplate, name } = item;
  if (typeof uriTemplate !== "string" || uriTemplate === "") return "It has no uriTemplate.";
  if (isReservedFrom(SOURCE, uriTemplate)) return reserved(uriTemplate);
  if (!isUsableTemplate(uriTemplate)) {
    return "Its uriTemplate cannot be matched with addresses: it must begin with a scheme such as docs://, have a name in each {…}, some text between two of them where the second begins with none of / ? & ; . #, at most 32 of them, and at most 1,024 characters.";
  }
  return { uriTemplate, name: typeof name === "string" ? cleanText(name) : uriTemplate, ...described(item) };
}

function reserved(uri: string): string {
  return `Its address begins with ${uri.slice(0, uri.indexOf(":"))}:, which only the rack itself answers for.`;
}

/** The descriptive members of an item, without hidden characters in their texts. */
function described(item: Listed): Listed {
  const { mimeType, annotations, icons, _meta } = item;
  const pictures = Array.isArray(icons) ? icons.filter(isIcon) : [];
  return {
    ...cleanTexts(item, "title", "description"),
    ...(typeof mimeType === "string" ? { mimeType } : {}),
    ...(isRecord(annotations) ? { annotations: usableNotes(annotations) } : {}),
    ...(pictures.length === 0 ? {} : { icons: pictures }),
    ...(isRecord(_meta) ? { _meta } : {}),
  };
}

/** The cleaned texts among these members. */
function cleanTexts(item: Listed, ...members: readonly string[]): Listed {
  const texts = members.flatMap((member) => {
    const text = item[member];
    return typeof text === "string" ? [[member, cleanText(text)]] : [];
  });
  return Object.fromEntries(texts);
}

const moment = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$/;

/** The valid annotations of a resource: audience, priority and time of its last change. */
function usableNotes({ audience, priority, lastModified }: Listed): Listed {
  const isAudience =
    Array.isArray(audience) && audience.every((one) => one === "user" || one === "assistant");
  const isPriority = typeof priority === "number" && priority >= 0 && priority <= 1;
  const isMoment = typeof lastModified === "string" && moment.test(lastModified);
  return {
    ...(isAudience ? { audience } : {}),
    ...(isPriority ? { priority } : {}),
    ...(isMoment && !Number.isNaN(Date.parse(lastModified)) ? { lastModified } : {}),
  };
}

function isIcon(icon: unknown): boolean {
  if (!isRecord(icon)) return false;
  const { src, mimeType = "", sizes = [], theme = "light" } = icon;
  const isSized = Array.isArray(sizes) && sizes.every((size) => typeof size === "string");
  return (
    typeof src === "string" && typeof mimeType === "string" && isSized && /^(light|dark)$/.test(String(theme))
  );
}

/** Whether a value has more levels than this. Not recursive, because the value may be deeper than the stack. */
function nestsDeeper(value: unknown, levels: number): boolean {
  let level: unknown[] = [value];
  for (let depth = 0; depth <= levels; depth++) {
    level = level.flatMap((part) => (typeof part === "object" && part !== null ? Object.values(part) : []));
    if (level.length === 0) return false;
  }
  return true;
}

/**
 * The record's own member of this name. A server may name a tool `constructor`, which every object inherits.
 */
export function ownMember<Value>(record: Readonly<Record<string, Value>>, name: string): Value | undefined {
  return Object.hasOwn(record, name) ? record[name] : undefined;
}
