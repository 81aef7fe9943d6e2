import { isDeepStrictEqual } from "node:util";
import { isRecord } from "../../../json/is-record.ts";
import type { ListName } from "../protocol/upstream-session.ts";
import { nestsDeeper } from "./nests-deeper.ts";
import {
  type Listed,
  usableAnnotations,
  usablePrompt,
  usableResource,
  usableTemplate,
} from "./usable-item.ts";

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
export function changedLists(before: Catalogue, after: Catalogue): ListName[] {
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
