import type { JsonSchemaObject, ToolInfo } from "@toolrack/core";
import { describingSchemas, keysOf, type SchemaPlace, walkSchemas } from "@toolrack/core/internal/schema";
import { type LintRule, originOf } from "../config/index.ts";

/** Something in a tool's definition that misleads models. */
export interface Finding {
  readonly code: LintRule;
  readonly tool: string;
  readonly reason: string;
  /** What would settle it. */
  readonly remedy: string;
  /** The parameters that it is about, as people write them: `filter.since`, `items[].id`. */
  readonly parameters?: readonly string[];
  /** The tool with which models will confuse this one. */
  readonly twin?: string;
}

/** A finding as a rule reports it. */
export type Found = Omit<Finding, "tool">;

/** The name that the tool's author gave it: for a tool of a server, the one without the server's key. */
export function ownNameOf(tool: ToolInfo): string {
  return originOf(tool)?.tool ?? tool.name;
}

/** A parameter at any depth. */
export interface Parameter {
  /** As people write it: `filter.since`, `items[].id`. */
  readonly path: string;
  readonly name: string;
  readonly schema: JsonSchemaObject;
  /** Its description, that of a schema that it refers to, or one around it that names it. */
  readonly description: string;
  /** It is an object, or a list of objects, whose members are parameters too. */
  readonly hasMembers: boolean;
}

/** So many parameters are looked at, and so deep: a schema may be huge. */
const MOST_PARAMETERS = 500;
const DEEPEST = 32;

/** All parameters of a schema, those of nested objects and of items too. */
export function parametersOf(root: JsonSchemaObject): Parameter[] {
  const found: Parameter[] = [];
  const seen = new Set<object>();
  walkSchemas(root, (place) => {
    const { schema, steps, depth } = place;
    const [keyword, member] = steps;
    const isLeftOut = keyword === "not" || keyword === "if" || depth > DEEPEST;
    if (isLeftOut || seen.has(schema) || found.length >= MOST_PARAMETERS) return false;
    seen.add(schema);
    if (keyword !== "properties") return true;
    const name = String(member);
    const texts = [...describingSchemas(schema, root), ...describingSchemas(schema.items, root)];
    const own = texts.map(({ description }) => description).find((text) => typeof text === "string");
    const around = placesAround(place).map((one) => one.schema.description);
    const description = own ?? around.find((text) => wordsIn(text).includes(name)) ?? "";
    const hasMembers = texts.some(({ properties }) => keysOf(properties).length > 0);
    found.push({ path: pathOf(place), name, schema, description: String(description), hasMembers });
    return true;
  });
  return found;
}

/** The schemas in which the place lies, the nearest first. */
function placesAround({ parent }: SchemaPlace): SchemaPlace[] {
  return parent === undefined ? [] : [parent, ...placesAround(parent)];
}

function wordsIn(text: unknown): readonly string[] {
  return typeof text === "string" ? (text.match(/[\w-]+/g) ?? []) : [];
}

function pathOf(place: SchemaPlace): string {
  return [place, ...placesAround(place)].reduceRight((before, { steps: [keyword, member] }) => {
    if (keyword === "items" || keyword === "prefixItems") return `${before}[]`;
    const isNamed = ["properties", "patternProperties", "$defs", "definitions"].some(
      (one) => one === keyword,
    );
    if (!isNamed) return before;
    return before === "" ? String(member) : `${before}.${member}`;
  }, "");
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
