import { type JsonSchemaObject, type ToolDefinition, type ToolInfo, toDefinition } from "@toolrack/core";
import { describingSchemas, type SchemaPlace, walkSchemas } from "@toolrack/core/internal/schema";
import { originOf } from "../config/index.ts";

/** The name that the tool's author gave it: for a tool of a server, the one without the server's key. */
export function ownNameOf(tool: ToolInfo): string {
  return originOf(tool)?.tool ?? tool.name;
}

/** Undefined for a tool whose schema has no JSON Schema form; the rules for providers tell of it. */
export function definitionOf(tool: ToolInfo): ToolDefinition | undefined {
  try {
    return toDefinition(tool);
  } catch {
    return undefined;
  }
}

/** A parameter at any depth. */
export interface Parameter {
  /** As people write it: `filter.since`, `items[].id`. */
  readonly path: string;
  readonly name: string;
  readonly schema: JsonSchemaObject;
  /** Its description, or one of the schemas that it refers to. */
  readonly description: string;
}

/** Most parameters that are looked at: a recursive schema has no end. */
const MOST_PARAMETERS = 500;

/** All parameters of a schema, those of nested objects and of items too. */
export function parametersOf(root: JsonSchemaObject): Parameter[] {
  const found: Parameter[] = [];
  const seen = new Set<object>();
  walkSchemas(root, (place) => {
    const { schema, steps } = place;
    if (seen.has(schema) || found.length >= MOST_PARAMETERS) return false;
    seen.add(schema);
    const [keyword, member] = steps;
    if (keyword === "not" || keyword === "if") return false;
    if (keyword === "properties") {
      const texts = [...describingSchemas(schema, root), ...describingSchemas(schema.items, root)].map(
        ({ description }) => description,
      );
      const description = texts.find((text) => typeof text === "string") ?? "";
      found.push({ path: pathOf(place), name: String(member), schema, description: String(description) });
    }
    return true;
  });
  return found;
}

function pathOf({ parent, steps }: SchemaPlace): string {
  const before = parent === undefined ? "" : pathOf(parent);
  const [keyword, member] = steps;
  if (keyword === "items" || keyword === "prefixItems") return `${before}[]`;
  const isNamed = ["properties", "patternProperties", "$defs", "definitions"].some((one) => one === keyword);
  if (!isNamed) return before;
  return before === "" ? String(member) : `${before}.${member}`;
}

/** Words for what a tool does, those of about the same meaning together. */
const actions = `get fetch read retrieve show view describe inspect load lookup return
list search find query browse explore enumerate discover
create add insert make generate register build
update edit modify set change patch replace write save
delete remove drop purge wipe destroy erase uninstall
send post publish|run execute call invoke|check validate verify test|count|copy|move rename|format|analyze analyse
convert|merge|split|start begin|stop cancel|open|close|enable|disable|lock|unlock|upload push export|download pull import
encode encrypt|decode decrypt|subscribe follow|unsubscribe unfollow|click|hover|drag|fill|select|protect|unprotect`
  .split(/[|\n]/)
  .map((words) => words.split(" "));
const actionOfWord = new Map(actions.flatMap((words) => words.map((word) => [word, words[0]!] as const)));

/** The first of the words that mean about the same: `get` for `fetches`; undefined for a word that names no action. */
export function actionOf(word: string): string | undefined {
  const forms = [word, word.replace(/s$/, ""), word.replace(/es$/, "")];
  return forms.map((form) => actionOfWord.get(form)).find((action) => action !== undefined);
}
