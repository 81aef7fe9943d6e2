import type { ToolInfo } from "@toolrack/core";
import type { ToolDefinition } from "@toolrack/core/format";
import { searchTerms } from "@toolrack/core/internal";
import { type Found, ownNameOf, type Parameter, parametersOf } from "./tool-facts.ts";

/** Findings on the description of a tool. */
export function textFindings(tool: ToolInfo): Found[] {
  const { title = "", description = "" } = tool;
  if (description.trim() === "") {
    const reason = "It has no description, so a model has only its name to choose it by.";
    return [{ code: "description_missing", reason, remedy: whatToSay }];
  }
  const why = vagueness(description, `${ownNameOf(tool)} ${title}`, emptyForTools);
  if (why === undefined) return [];
  return [
    {
      code: "description_vague",
      reason: `Its description ${why}: ${quoted(description)}.`,
      remedy: whatToSay,
    },
  ];
}

const whatToSay =
  "Say in one or two sentences what it does, when to use it and what it answers, in the words in which people ask for it.";

/** Findings on the descriptions of parameters: one for all that have none, one for all that say nothing. */
export function parameterFindings(definition: ToolDefinition | undefined): Found[] {
  if (definition === undefined) return [];
  const isExplained = explainer(definition.description ?? "");
  const all = parametersOf(definition.inputSchema).filter(({ schema }) => !("const" in schema));
  const missing = all.filter(
    // An object is described by its members.
    (one) => one.description.trim() === "" && !one.hasMembers && !isExplained(one.name),
  );
  const vague = all.filter(
    (one) =>
      one.description.trim() !== "" && vagueness(one.description, one.name, emptyForParameters) !== undefined,
  );
  const found: Found[] = [];
  if (missing.length > 0) {
    found.push({
      code: "parameter_undescribed",
      reason: `${amount(missing)} no description: ${listed(missing)}.`,
      remedy:
        'Add a description to each in the schema: what it means, in which form, and an example such as "2026-07-28".',
      parameters: missing.map(({ path }) => path),
    });
  }
  if (vague.length > 0) {
    found.push({
      code: "parameter_vague",
      reason: `${amount(vague)} a description that says no more than the name: ${listed(vague)}.`,
      remedy:
        "Say what a name cannot: the form, the unit, where the value comes from, what happens without it.",
      parameters: vague.map(({ path }) => path),
    });
  }
  return found;
}

/**
 * Returns a function that tells whether the text explains a parameter: in a line of its own, as `city (str): The town`, or
 * in quotes.
 */
function explainer(text: string): (name: string) => boolean {
  const line = /^[ \t*-]*["'`]*([A-Za-z_][\w.-]*)["'`*]*[ \t]*(?:\([^()\n]*\)[ \t]*)?[:：–—-][ \t]*\S/gm;
  const quote = /["'`]([A-Za-z_][\w.-]*)["'`]/g;
  const explained = new Set(
    [line, quote].flatMap((form) => Array.from(text.matchAll(form), ([, name]) => name)),
  );
  return (name) => explained.has(name);
}

function amount(parameters: readonly Parameter[]): string {
  return parameters.length === 1 ? "One parameter has" : `${parameters.length} parameters have`;
}

const MOST_LISTED = 5;

function listed(parameters: readonly Parameter[]): string {
  const shown = parameters.slice(0, MOST_LISTED).map(({ path }) => `\`${path}\``);
  const more = parameters.length - shown.length;
  return shown.join(", ") + (more > 0 ? ` and ${more} more` : "");
}

const placeholder =
  /^\W*(?:todo|tbd|fixme|xxx|n\/?a|none|null|undefined|lorem ipsum|(?:no |your |a |the |tool |some )?description(?: here)?|(?:a |this |my )?tool)\W*$/i;
/** Words that describe no tool in particular, and no parameter, as search knows them. */
const emptyForTools = searchTermsOf(
  "tool function method operation action command api endpoint use used perform execute run handle",
);
const emptyForParameters = searchTermsOf(
  "value parameter argument param string integer boolean object array given specified provided optional required",
);

/** Why the text tells a model nothing; undefined when it does tell something. `name`: what the model knows anyway. */
function vagueness(text: string, name: string, empty: ReadonlySet<string>): string | undefined {
  if (placeholder.test(text)) return "is a placeholder";
  // A form or an example says more than words do: `YYYY-MM-DD`, "0 to 100", `/path/to`.
  if (/\d|["'`/\\=<>{}[\]]|[A-Z]{3}/.test(text)) return undefined;
  const known = searchTermsOf(name);
  const isNew = (term: string) => !known.has(term) && !empty.has(term);
  return [...searchTermsOf(text)].some(isNew) ? undefined : "says no more than the name";
}

function searchTermsOf(text: string): ReadonlySet<string> {
  return new Set(searchTerms(text).keys());
}

function quoted(text: string): string {
  const line = text.trim().replace(/\s+/g, " ");
  return `"${line.length > 60 ? `${line.slice(0, 59)}…` : line}"`;
}
