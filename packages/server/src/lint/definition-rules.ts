import type { ToolInfo } from "@toolrack/core";
import type { ToolDefinition } from "@toolrack/core/format";
import { type FormatNote, toAnthropicTools, toGeminiTools, toOpenAITools } from "@toolrack/core/format";
import { canonicalName, definitionTokens, splitWords } from "@toolrack/core/internal";
import { isRecord, memberAt, pointerSteps } from "@toolrack/core/internal/schema";
import type { Found } from "./tool-facts.ts";

/** What the providers' formats cannot carry of a definition. */
export function providerFindings(tool: ToolInfo, definition: ToolDefinition | undefined): Found[] {
  const tools = [definition ?? tool];
  const strict = toOpenAITools(tools, { strict: true }).notes.find(
    (note) => note.action === "not_strict" && !isMeant(note, definition?.inputSchema),
  );
  const notes = [
    ["OpenAI", toOpenAITools(tools).notes] as const,
    ["Anthropic", toAnthropicTools(tools).notes] as const,
    ["Gemini", toGeminiTools(tools).notes] as const,
  ];
  const lost = new Map<string, string[]>();
  for (const [provider, all] of notes)
    for (const note of all.filter(isLoss)) {
      const text = lossText(note);
      lost.set(text, [...(lost.get(text) ?? []), provider]);
    }
  const found: Found[] = [];
  if (strict !== undefined) {
    found.push({
      code: "strict_lost",
      reason: `OpenAI's strict mode, which makes arguments always fit the schema, cannot be used for it. ${at(strict)}${strict.message}`,
      remedy:
        "Say which type a value has, list the keys of every object, and give branches one shape, with a key that tells them apart. Or describe what may stand there, if it is meant to be open.",
    });
  }
  if (lost.size > 0) {
    const texts = [...lost].map(([text, providers]) => `${providers.join(", ")}: ${text}`);
    const more = texts.length > MOST_LOSSES ? ` And ${texts.length - MOST_LOSSES} more.` : "";
    found.push({
      code: "provider_loss",
      reason: `Some providers are not sent all of it. ${texts.slice(0, MOST_LOSSES).join(" ")}${more}`,
      remedy:
        "Say it in the description of the parameter, or write the schema without it. The rack still checks arguments by the whole schema.",
    });
  }
  return found;
}

/**
 * Whether the author wants a part to be open: it says that other keys are taken, or it has a description, which then says
 * what may stand there. Strict mode cannot be had for such a tool, and nothing is wrong with it.
 */
function isMeant({ path, keyword }: FormatNote, schema: unknown): boolean {
  if (keyword === "anyOf" || keyword === "oneOf") return false;
  const steps = pointerSteps(path);
  const places = steps.map((_, at) => memberAt(schema, steps.slice(0, at + 1)));
  if (places.some((place) => isRecord(place) && typeof place.description === "string")) return true;
  const place = places.at(-1) ?? schema;
  return isRecord(place) && (place.additionalProperties ?? false) !== false;
}

const MOST_LOSSES = 3;

/** That an object is closed is said by none of the others' formats, and the rack refuses other keys anyway. */
function isLoss({ action, keyword }: FormatNote): boolean {
  if (action === "dropped" && keyword === "additionalProperties") return false;
  return action === "dropped" || action === "shortened" || action === "left_out";
}

function lossText(note: FormatNote): string {
  const { action, keyword, message } = note;
  if (action === "left_out") return `the tool is not sent at all. ${message}`;
  const what = action === "shortened" ? `the ${keyword} is cut` : `\`${keyword}\` is left out`;
  return `${at(note)}${what}. ${message}`;
}

/** `filter.since: `; empty for the whole schema. */
function at({ path }: FormatNote): string {
  const steps = pointerSteps(path);
  const names = steps.filter((_, index) => isName(steps, index));
  return names.length === 0 ? "" : `\`${names.join(".")}\`: `;
}

/** Whether a step of a pointer is the name of a property, and not a keyword: a property may be called `items`. */
function isName(steps: readonly string[], index: number): boolean {
  return index > 0 && steps[index - 1] === "properties" && !isName(steps, index - 1);
}

/** Models take names of 64 characters, and MCP clients put the name of the rack before: `mcp__toolrack__NAME`. */
const LONGEST_NAME = 64 - "mcp__toolrack__".length;

export function nameFindings({ name, aliases = [] }: ToolInfo): Found[] {
  const written = aliases.find((alias) => canonicalName(alias) === name);
  if (written !== undefined) {
    const reason = `Models take no name such as "${written}": they are given ${name}, with a hash that says nothing.`;
    return [{ code: "name_long", reason, remedy: "Use letters, digits, _ and -, and at most 49 of them." }];
  }
  if (name.length <= LONGEST_NAME) return [];
  const reason = `Its name has ${name.length} characters. MCP clients call it mcp__toolrack__${name}, and models take at most 64.`;
  const remedy = `Give it a name of at most ${LONGEST_NAME} characters; for a tool of a server, with \`rename\` in its entry.`;
  return [{ code: "name_long", reason, remedy }];
}

/** A definition of so many tokens is among the most expensive 2 % of real tools. */
export const USUAL_MOST_TOKENS = 1_000;

export function costFindings(tool: ToolInfo, most = USUAL_MOST_TOKENS): Found[] {
  const tokens = definitionTokens(tool);
  if (tokens <= most) return [];
  const description = tool.description?.length ?? 0;
  const reason = `Its definition costs about ${tokens} tokens in every request to a model; the limit is ${most}. The description has ${description} characters.`;
  const remedy =
    "Shorten the texts, leave out values that the tool checks itself, or split it into tools that do one thing each. The limit is lint.maxTokens.";
  return [{ code: "tokens_high", reason, remedy }];
}

const destructive: ReadonlySet<string> = new Set(
  "delete remove drop purge wipe destroy erase truncate uninstall terminate kill".split(" "),
);
const changing: ReadonlySet<string> = new Set([
  ...destructive,
  ..."write update insert rename upload send publish overwrite".split(" "),
]);
const deletes =
  /^\W*(?:permanently |irreversibly |(?:this )?(?:tool|function) )?(?:deletes?|removes?|drops?|purges?|wipes?|destroys?|erases?)\b|^\s*(?:永久)?(?:删除|清空|销毁|移除)/i;

/** Contradictions in what a tool says about itself, and destruction that nobody is asked about. */
export function annotationFindings({ name, description = "", metadata }: ToolInfo): Found[] {
  const hints = isRecord(metadata.annotations) ? metadata.annotations : {};
  const readOnly = metadata.readOnly ?? hints.readOnlyHint;
  const dangerous = metadata.dangerous ?? hints.destructiveHint;
  const words = splitWords(name);
  const found: Found[] = [];
  const contradiction = (reason: string) => {
    const remedy =
      "Say what is true in the tool's metadata; for a tool of a server, with `annotations` in its entry.";
    found.push({ code: "annotations_contradict", reason, remedy });
  };
  if (readOnly === true && dangerous === true) {
    contradiction(
      "It says both that it only reads and that it is dangerous, so clients treat it differently.",
    );
  }
  const verb = words.find((word) => changing.has(word));
  if (readOnly === true && verb !== undefined)
    contradiction(`It says that it only reads, but its name says "${verb}".`);
  if (
    metadata.readOnly !== undefined &&
    typeof hints.readOnlyHint === "boolean" &&
    metadata.readOnly !== hints.readOnlyHint
  )
    contradiction(
      `Its metadata say readOnly: ${metadata.readOnly}, its annotations readOnlyHint: ${hints.readOnlyHint}.`,
    );
  if (metadata.dangerous === true || readOnly === true) return found;
  const says = destructiveWords(words, description, hints);
  if (says !== undefined) {
    found.push({
      code: "destructive_unmarked",
      reason: `${says}, but it is not marked dangerous, so it runs without asking anybody.`,
      remedy:
        "Write metadata: { dangerous: true }, or { readOnly: true } if it destroys nothing; for a tool of a server, name it under `ask` in its entry.",
    });
  }
  return found;
}

function destructiveWords(
  words: readonly string[],
  description: string,
  hints: Readonly<Record<string, unknown>>,
): string | undefined {
  const verb = words.find((word) => destructive.has(word));
  if (verb !== undefined) return `Its name says "${verb}"`;
  if (hints.destructiveHint === true) return "Its server says that it is destructive";
  const [said] = deletes.exec(description) ?? [];
  return said === undefined ? undefined : `Its description says "${said.trim()}"`;
}
