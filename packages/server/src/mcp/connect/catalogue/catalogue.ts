import { isDeepStrictEqual } from "node:util";
import { isReservedFrom, isUsableTemplate, racksKey, readRacks } from "../../../calls/index.ts";
import { asRecord, defined, isRecord } from "../../../helpers/index.ts";
import { type ListName, lists } from "../../wire/index.ts";
import { type ApiFacts, type DescribedSignIn, factsKey } from "../protocol/api.ts";
import type { Message } from "../protocol/messages.ts";
import type { ServerProfile, UpstreamSession } from "../protocol/session.ts";
import { cleanText } from "./usable-schema.ts";

/** A tool as its server describes it. The types are checked; the content is not to be trusted. */
export interface UpstreamTool {
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly inputSchema: Message;
  readonly outputSchema?: Message;
  readonly annotations?: Message;
  /** The server runs this tool only as a task. */
  readonly isTask?: true;
  readonly _meta?: Message;
}

/** A listed item that cannot be used, and why. */
export interface RefusedItem {
  readonly name: string;
  readonly reason: string;
}

interface Lists<Tool> {
  readonly tools: readonly Tool[];
  readonly prompts: readonly Message[];
  readonly resources: readonly Message[];
  readonly templates: readonly Message[];
}

/** What a server offers, as it was last seen. */
export interface Catalogue extends Lists<UpstreamTool>, Pick<ServerProfile, "serverInfo" | "instructions"> {
  /** Listed items that cannot be used. */
  readonly refused?: readonly RefusedItem[];
  /** Which lists were not read completely, and why. */
  readonly cut?: readonly string[] | undefined;
  /** If it is an API at which a person signs in: what its description says about that. */
  readonly signIn?: DescribedSignIn | undefined;
  /** If it is an API: the files of its description. */
  readonly files?: readonly string[];
  /** If the server is a rack: its id and the ids of the racks behind it. */
  readonly racks?: readonly string[];
  /** When the lists were read, in milliseconds since the epoch. */
  readonly at: number;
}

/** What clients are told about a server. `isOwn`: in the words of its entry, and not of the server. */
export interface ServerInstructions {
  readonly text: string;
  readonly isOwn: boolean;
}

/** Of longer instructions, only the beginning is used. */
export const LONGEST_INSTRUCTIONS = 2_000;

/**
 * The instructions of a server in the form of a tool, so that they are approved like one. Its name is empty, as that of no
 * tool is. Undefined when the server has no instructions.
 */
export function instructionsAsTool({ instructions = "" }: Catalogue): UpstreamTool | undefined {
  const clean = cleanText(instructions);
  const description =
    clean.length > LONGEST_INSTRUCTIONS ? `${clean.slice(0, LONGEST_INSTRUCTIONS).trimEnd()}…` : clean;
  return description === "" ? undefined : { name: "", description, inputSchema: { type: "object" } };
}

/** What people approve of a server: its tools, and its instructions. */
export function approvedParts(catalogue: Catalogue): readonly UpstreamTool[] {
  const instructions = instructionsAsTool(catalogue);
  return instructions === undefined ? catalogue.tools : [...catalogue.tools, instructions];
}

export const emptyCatalogue: Catalogue = { tools: [], prompts: [], resources: [], templates: [], at: 0 };

/** The catalogue that one caller was shown, for all callers: without what holds one of the caller's own values. */
export function withoutValues(catalogue: Catalogue, values: Iterable<string>): Catalogue {
  const written = [...values].map((value) => JSON.stringify(value).slice(1, -1));
  if (written.length === 0) return catalogue;
  const isFree = (item: unknown) => {
    const text = JSON.stringify(item) ?? "";
    return !written.some((value) => text.includes(value));
  };
  const { tools, prompts, resources, templates, serverInfo, instructions, refused = [] } = catalogue;
  const telling = [tools, prompts, resources, templates].flat().filter((item) => !isFree(item));
  const reason = "It holds credentials of the caller to whom it was listed.";
  return {
    ...catalogue,
    tools: tools.filter(isFree),
    prompts: prompts.filter(isFree),
    resources: resources.filter(isFree),
    templates: templates.filter(isFree),
    serverInfo: isFree(serverInfo) ? serverInfo : undefined,
    instructions: isFree(instructions) ? instructions : undefined,
    refused: [
      ...refused.filter(isFree),
      ...telling.map(({ name }) => ({ name: isFree(name) ? String(name) : "?", reason })),
    ],
  };
}

/** Of a list with more pages or items than this, only the first ones are read. */
const MOST_PAGES = 2_000;
const MOST_ITEMS = 10_000;

/**
 * Reads what a server offers. Rejects only when the tools cannot be read; if another list cannot be read, the
 * list of `before` is kept.
 */
export async function readCatalogue(
  session: UpstreamSession,
  { timeout, before, onProblem }: { timeout: number; before: Catalogue; onProblem: (text: string) => void },
): Promise<Catalogue> {
  const { capabilities, serverInfo, instructions } = session.profile;
  const cut: string[] = [];
  let told: Message = {};
  const list = async (kind: ListName, method: string, member: string, asked?: Message) => {
    if (capabilities[kind] === undefined) return [];
    const { items, meta, why } = await readPages(session, method, member, { timeout, asked });
    if (why !== undefined) {
      const read = items.length === 0 ? "nothing was" : `only the first ${items.length} were`;
      cut.push(`Of its answer to ${method}, ${read} read: ${why}`);
    }
    if (asked !== undefined) told = meta;
    return items;
  };
  const optional = (kind: ListName, method: string, member: string, known: readonly Message[]) =>
    list(kind, method, member).catch((error: Error) => {
      onProblem(`${method} could not be read, and what was known before is kept: ${error.message}`);
      return known;
    });
  const [tools, prompts, resources, templates] = await Promise.all([
    list("tools", "tools/list", "tools", { [racksKey]: true }),
    optional("prompts", "prompts/list", "prompts", before.prompts),
    optional("resources", "resources/list", "resources", before.resources),
    optional("resources", "resources/templates/list", "resourceTemplates", before.templates),
  ]);
  // Of an API, `ApiTransport` wrote the facts, so they can be trusted. A server could write anything there.
  const facts = session.verdict.transport === "api" ? (told[factsKey] as ApiFacts) : undefined;
  const { skipped = [], problems = [], signIn, files } = facts ?? {};
  cut.push(...problems.map(cleanText));
  for (const problem of cut) onProblem(problem);
  const { refused, ...checked } = checkCatalogue({ tools, prompts, resources, templates });
  return {
    ...checked,
    refused: [...refused, ...skipped.map(({ name, reason }) => ({ name, reason: cleanText(reason) }))],
    serverInfo,
    // Cut generously here, so that nothing huge is stored; `instructionsAsTool` cuts what is used.
    instructions: instructions?.slice(0, 4 * LONGEST_INSTRUCTIONS),
    racks: readRacks(told[racksKey]),
    at: Date.now(),
    ...defined({ signIn, files }),
    cut: cut.length === 0 ? undefined : cut.sort(),
  };
}

/**
 * Reads all pages of a list, with the `_meta` of the last one. `timeout`: the longest time for all pages together, in
 * milliseconds. `asked`: the `_meta` of each request. `why`: the reason if the list was not read to its end.
 */
async function readPages(
  session: UpstreamSession,
  method: string,
  member: string,
  { timeout, asked }: { timeout: number; asked: Message | undefined },
): Promise<{ items: Message[]; meta: Message; why?: string }> {
  const items: Message[] = [];
  const cursors = new Set<unknown>();
  const endsAt = performance.now() + timeout;
  let meta: Message = {};
  let cursor: string | undefined;
  for (let page = 0; page < MOST_PAGES; page++) {
    const params = { ...(cursor === undefined ? {} : { cursor }), ...(asked && { _meta: asked }) };
    const answer = asRecord(await session.request({ method, params, timeout }));
    const { [member]: found, nextCursor, _meta } = answer;
    if (isRecord(_meta)) meta = _meta;
    for (const item of Array.isArray(found) ? found : []) {
      if (typeof item !== "object" || item === null) continue;
      if (items.length === MOST_ITEMS) return { items, meta, why: "it lists more than that." };
      items.push(item);
    }
    if (typeof nextCursor !== "string" || nextCursor === "") return { items, meta };
    if (cursors.has(nextCursor)) return { items, meta, why: "it goes round in circles with its pages." };
    if (performance.now() > endsAt) {
      const why = `the rest did not come within ${timeout} ms. If it is only slow, give its entry a larger toolrack.limits.list.`;
      return { items, meta, why };
    }
    cursors.add(nextCursor);
    cursor = nextCursor;
  }
  return { items, meta, why: `it has more than ${MOST_PAGES} pages.` };
}

/** The tools count as changed with the instructions, from which they know what their server is for. */
export function changedLists(before: Catalogue, after: Catalogue): ListName[] {
  const parts = {
    tools: ["tools", "instructions"],
    prompts: ["prompts"],
    resources: ["resources", "templates"],
  } as const;
  return lists.filter((list) => parts[list].some((part) => !isDeepStrictEqual(before[part], after[part])));
}

const MOST_REFUSED = 50;
/**
 * How many levels the definition of a tool may nest: more than any valid schema has, and few enough for code
 * that walks a schema recursively.
 */
const DEEPEST = 1_000;
/**
 * The source key under which addresses are checked, the same for all upstream servers: none of them owns a URI scheme.
 */
export const SOURCE = "mcp:";

/**
 * Checks the lists of a server, so that every client can read them. Removes optional members of a wrong type, and refuses
 * items whose required members are wrong.
 */
export function checkCatalogue(
  given: Lists<Message | UpstreamTool>,
): Lists<UpstreamTool> & { readonly refused: readonly RefusedItem[] } {
  const refused: RefusedItem[] = [];
  const check = <Item>(
    what: string,
    items: readonly (Message | UpstreamTool)[],
    make: (item: Message) => Item | string,
    keyOf: (item: Item) => unknown,
  ): Item[] => {
    const usable = new Map<unknown, Item>();
    for (const item of items) {
      const made = make({ ...item });
      if (typeof made !== "string" && !usable.has(keyOf(made))) usable.set(keyOf(made), made);
      else if (refused.length < MOST_REFUSED) {
        const twice = `The server lists more than one ${what} like this. The first one counts.`;
        const name =
          typeof item.name === "string" && item.name !== "" ? item.name.slice(0, 200) : `a ${what}`;
        refused.push({ name, reason: typeof made === "string" ? made : twice });
      }
    }
    return [...usable.values()];
  };
  return {
    tools: check("tool", given.tools, usableTool, ({ name }) => name),
    prompts: check("prompt", given.prompts, usablePrompt, ({ name }) => name),
    resources: check("resource", given.resources, usableResource, ({ uri }) => uri),
    templates: check("resource template", given.templates, usableTemplate, (item) => item.uriTemplate),
    refused,
  };
}

/** Reads one member: its usable value, or undefined when it has another type. */
type Reader = (value: unknown) => unknown;

const plain: Reader = (value) => (typeof value === "string" ? value : undefined);
const clean: Reader = (value) => (typeof value === "string" ? cleanText(value) : undefined);
const record: Reader = (value) => (isRecord(value) ? value : undefined);
const flag: Reader = (value) => (typeof value === "boolean" ? value : undefined);
const amount: Reader = (value) => (typeof value === "number" ? value : undefined);

/** Returns the members of an item that have a reader, without those that have a wrong type. */
function take(item: Message, readers: Readonly<Record<string, Reader>>): Message {
  const read = Object.entries(readers).map(([member, reader]) => [member, reader(item[member])] as const);
  return Object.fromEntries(read.filter(([, value]) => value !== undefined));
}

const moment = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$/;

/** The readers for the annotations of prompts and resources. */
const notes: Readonly<Record<string, Reader>> = {
  audience: (value) =>
    Array.isArray(value) && value.every((one) => one === "user" || one === "assistant") ? value : undefined,
  priority: (value) => (typeof value === "number" && value >= 0 && value <= 1 ? value : undefined),
  lastModified: (value) =>
    typeof value === "string" && moment.test(value) && !Number.isNaN(Date.parse(value)) ? value : undefined,
};

/** The readers for the descriptive members of prompts and resources. They remove hidden characters from texts. */
const described: Readonly<Record<string, Reader>> = {
  title: clean,
  description: clean,
  mimeType: plain,
  annotations: (value) => (isRecord(value) ? take(value, notes) : undefined),
  icons: (value) => {
    const icons = Array.isArray(value) ? value.filter(isIcon) : [];
    return icons.length === 0 ? undefined : icons;
  },
  _meta: record,
};

function isIcon(icon: unknown): boolean {
  const { src, mimeType = "", sizes = [], theme = "light" } = asRecord(icon);
  const isSized = Array.isArray(sizes) && sizes.every((size) => typeof size === "string");
  const isText = typeof src === "string" && typeof mimeType === "string";
  return isText && isSized && /^(light|dark)$/.test(String(theme));
}

function usableTool(item: Message): UpstreamTool | string {
  const { name, inputSchema, annotations, execution, isTask } = item;
  if (typeof name !== "string" || name === "") return "It has no name.";
  if (nestsDeeper(item, DEEPEST)) return `Its definition nests more than ${DEEPEST} levels.`;
  // `isTask` comes from a stored catalogue, `execution` from the server.
  const isTaskOnly = asRecord(execution).taskSupport === "required" || isTask === true;
  const hints = usableAnnotations(annotations);
  return {
    name,
    ...take({ title: hints?.title }, { title: plain }),
    ...take(item, { title: plain, description: plain }),
    inputSchema: isRecord(inputSchema) ? inputSchema : { type: "object" },
    ...take(item, { outputSchema: record }),
    ...(hints === undefined ? {} : { annotations: hints }),
    ...(isTaskOnly ? { isTask: true } : {}),
    ...take(item, { _meta: record }),
  };
}

/** The annotations of a tool without those of a wrong type. */
export function usableAnnotations(given: unknown): Message | undefined {
  if (!isRecord(given)) return undefined;
  const readerOf = (key: string): Reader =>
    key === "title" ? clean : /Hint$/.test(key) ? flag : (value) => value;
  return take(given, Object.fromEntries(Object.keys(given).map((key) => [key, readerOf(key)])));
}

/** The checked prompt, or a text that says why it cannot be used. */
function usablePrompt(item: Message): Message | string {
  const { name, arguments: args } = item;
  if (typeof name !== "string" || name === "") return "It has no name.";
  if (args === undefined || args === null) return { name, ...take(item, described) };
  if (!Array.isArray(args) || !args.every((one) => isRecord(one) && typeof one.name === "string")) {
    return "Its arguments are not a list of things with names, so nobody could fill them in.";
  }
  const readers = { name: plain, title: clean, description: clean, required: flag };
  return { name, ...take(item, described), arguments: args.map((one) => take(one, readers)) };
}

function usableResource(item: Message): Message | string {
  const { uri } = item;
  if (typeof uri !== "string" || uri === "") return "It has no uri.";
  if (isReservedFrom(SOURCE, uri)) return reserved(uri);
  return { uri, name: uri, ...take(item, { name: clean, ...described, size: amount }) };
}

function usableTemplate(item: Message): Message | string {
  const { uriTemplate } = item;
  if (typeof uriTemplate !== "string" || uriTemplate === "") return "It has no uriTemplate.";
  if (isReservedFrom(SOURCE, uriTemplate)) return reserved(uriTemplate);
  if (!isUsableTemplate(uriTemplate)) {
    return "Its uriTemplate cannot be matched with addresses: it must begin with a scheme such as docs://, have a name in each {…}, some text between two of them where the second begins with none of / ? & ; . #, at most 32 of them, and at most 1,024 characters.";
  }
  return { uriTemplate, name: uriTemplate, ...take(item, { name: clean, ...described }) };
}

function reserved(uri: string): string {
  return `Its address begins with ${uri.slice(0, uri.indexOf(":"))}:, which only the rack itself answers for.`;
}

/** Whether a value nests more than this many levels. Not recursive, because the value may be deeper than the stack. */
function nestsDeeper(value: unknown, levels: number): boolean {
  let level: unknown[] = [value];
  for (let depth = 0; depth <= levels; depth++) {
    level = level.flatMap((part) => (typeof part === "object" && part !== null ? Object.values(part) : []));
    if (level.length === 0) return false;
  }
  return true;
}

/** The record's own member of this name. A server may name a tool `constructor`, which every object inherits. */
export function ownMember<Value>(record: Readonly<Record<string, Value>>, name: string): Value | undefined {
  return Object.hasOwn(record, name) ? record[name] : undefined;
}
