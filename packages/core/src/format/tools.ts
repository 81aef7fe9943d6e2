import { compileSchema } from "../schema/compile-schema.ts";
import { isRecord, type JsonSchemaObject, listOf, reasonOf } from "../schema/visit.ts";
import { canonicalName } from "../tool/name.ts";
import type { FilePart, ToolResult } from "../tool/result.ts";
import type { ToolInfo, ToolMetadata } from "../tool/types.ts";
import type { FormatNote, TakeNote } from "./format-notes.ts";

/** Tools in a provider's format, and functions that convert the provider's calls back. */
export interface FormattedTools<Tool> {
  /** Sorted by name, so that the same tools always give the same text and prompt caches hold. */
  readonly tools: readonly Tool[];
  /** All differences between the tools and what is sent. */
  readonly notes: readonly FormatNote[];
  /** The rack's name for a provider's name; unknown names are returned unchanged. */
  nameOf(providerName: string): string;
  /** The provider's name for a rack's name, for history and `tool_choice`. */
  providerNameOf(name: string): string;
  /** Converts a provider's call: the rack's name, and arguments for the tool's own schema. */
  restore(call: ToolCallRequest): ToolCallRequest;
}

/**
 * A tool in a provider's format. `restore` converts arguments that fit the rewritten schema to arguments for
 * the tool's own schema.
 */
export interface FormattedTool<Tool> {
  readonly tool: Tool;
  readonly restore?: ((args: unknown) => unknown) | undefined;
}

interface ProviderFormat<Tool> {
  readonly names: NameRule;
  /** May throw: the tool is then left out, and a note says why. */
  format(definition: ToolDefinition, providerName: string, note: TakeNote): FormattedTool<Tool>;
}

/** Formats each tool separately: a tool that cannot be formatted is left out, with a note. */
export function formatTools<Tool>(
  tools: Iterable<ToolInfo | ToolDefinition>,
  provider: ProviderFormat<Tool>,
): FormattedTools<Tool> {
  const sorted = [...tools].sort((a, b) => byCodeUnit(a.name, b.name));
  const toProvider = providerNames(new Set(sorted.map((tool) => tool.name)), provider.names);
  const toRack = new Map([...toProvider].map(([name, providerName]) => [providerName, name]));
  const restorers = new Map<string, FormattedTool<Tool>["restore"]>();
  const formatted: Tool[] = [];
  const notes: FormatNote[] = [];
  for (const [index, source] of sorted.entries()) {
    const { name } = source;
    const own: FormatNote[] = [];
    const take: TakeNote = (path, keyword, action, message) =>
      own.push({ tool: name, path, keyword, action, message });
    try {
      if (name === sorted[index - 1]?.name) {
        take("", "name", "left_out", "Another tool of this list has the same name.");
        continue;
      }
      const definition = withProperText("inputSchema" in source ? source : toDefinition(source));
      const providerName = toProvider.get(name) ?? name;
      if (providerName !== name) take("", "name", "rewritten", `Sent as ${providerName}.`);
      const { tool, restore } = provider.format(definition, providerName, take);
      formatted.push(tool);
      restorers.set(name, restore);
    } catch (error) {
      own.length = 0;
      take("", "schema", "left_out", `Its schema cannot be sent: ${firstLineOf(error)}.`);
    } finally {
      notes.push(...own);
    }
  }
  const nameOf = (providerName: string) => toRack.get(providerName) ?? providerName;
  return {
    tools: formatted,
    notes,
    nameOf,
    providerNameOf: (name) => toProvider.get(name) ?? name,
    restore: (call) => {
      const name = nameOf(call.name);
      const restore = restorers.get(name);
      return { ...call, name, arguments: restore ? restore(call.arguments) : call.arguments };
    },
  };
}

/** Leaves out a title or description that is not a text: sources outside TypeScript may give `null`. */
function withProperText(definition: ToolDefinition): ToolDefinition {
  const { title, description, ...rest } = definition;
  return {
    ...rest,
    ...(typeof title === "string" && { title }),
    ...(typeof description === "string" && { description }),
  };
}

function firstLineOf(error: unknown): string {
  // The message for a circular object has several lines.
  return (reasonOf(error).split("\n")[0] ?? "").replace(/\.$/, "");
}

/** A tool for providers, before any provider's limits are applied. Plain JSON except `metadata`. */
export interface ToolDefinition {
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly inputSchema: JsonSchemaObject;
  readonly outputSchema?: JsonSchemaObject;
  readonly metadata: ToolMetadata;
}

/** Whether a tool may be called by a model, or by code that a model wrote. Everybody may call a tool that does not say. */
export function mayBeCalledBy(who: "model" | "code", { callers }: ToolMetadata): boolean {
  return !Array.isArray(callers) || callers.includes(who);
}

/** Throws `SchemaError` when a schema has no JSON Schema form. */
export function toDefinition(info: ToolInfo): ToolDefinition {
  return {
    name: info.name,
    ...(info.title !== undefined && { title: info.title }),
    ...(info.description !== undefined && { description: info.description }),
    inputSchema: compileSchema(info.parameters).jsonSchema(),
    ...(info.outputSchema !== undefined && { outputSchema: compileSchema(info.outputSchema).jsonSchema() }),
    metadata: info.metadata,
  };
}

/** The same; undefined for a tool whose schema library cannot produce JSON Schema. It can be called all the same. */
export function definitionOf(info: ToolInfo): ToolDefinition | undefined {
  try {
    return toDefinition(info);
  } catch {
    return undefined;
  }
}

/** The tool names that a provider accepts. */
interface NameRule {
  readonly accepts: RegExp;
  readonly maxLength: number;
}

/** Maps the rack's sorted names to the provider's; only refused names change. */
function providerNames(names: ReadonlySet<string>, rule: NameRule): Map<string, string> {
  const taken = new Set([...names].filter((name) => rule.accepts.test(name)));
  return new Map(
    Array.from(names, (name) => {
      if (rule.accepts.test(name)) return [name, name];
      const free = freeName(name, taken, rule);
      taken.add(free);
      return [name, free];
    }),
  );
}

/** Compares by code units: unlike an order by language, the result is the same on every machine. */
function byCodeUnit(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function freeName(name: string, taken: ReadonlySet<string>, rule: NameRule): string {
  for (let attempt = 0; ; attempt++) {
    // No accepted name contains NUL, so each attempt gets another hash.
    const salted = attempt === 0 ? name : `${name}\0${attempt}`;
    const candidate = canonicalName(salted, rule.maxLength);
    const legal = rule.accepts.test(candidate)
      ? candidate
      : `_${canonicalName(`${salted}\0`, Math.min(64, rule.maxLength) - 1)}`;
    if (!taken.has(legal)) return legal;
  }
}

/** A call as a model asked for it, whatever the provider. */
export interface ToolCallRequest {
  /** The provider's id, or one made from the position in the message. */
  readonly id: string;
  /** The name that the model used. May be empty; the call still needs an answer. */
  readonly name: string;
  /** An object if the provider parsed it, otherwise the raw text, which the pipeline parses and repairs. */
  readonly arguments: unknown;
}

const madeUpPrefix = "call_at_";

export function callIdAt(position: number): string {
  return `${madeUpPrefix}${position}`;
}

/** Whether the id was made here and is unknown to the provider. */
export function isMadeUpCallId(id: string): boolean {
  return id.startsWith(madeUpPrefix);
}

/** A call from a provider's list before its id and name are checked. */
interface GivenCall {
  readonly id?: unknown;
  readonly name?: unknown;
  readonly arguments: unknown;
}

/**
 * Reads the calls in a provider's list, or in the member of a message that holds it. `read` returns undefined for an
 * item that is no call. Never throws.
 */
export function readCalls(
  given: unknown,
  member: string,
  read: (item: Readonly<Record<string, unknown>>) => GivenCall | undefined,
): ToolCallRequest[] {
  return listOf(isRecord(given) ? given[member] : given).flatMap((item, position) => {
    const call = isRecord(item) ? read(item) : undefined;
    if (call === undefined) return [];
    const id = typeof call.id === "string" && call.id !== "" ? call.id : callIdAt(position);
    return [{ id, name: typeof call.name === "string" ? call.name : "", arguments: call.arguments }];
  });
}

/** Splits a result into its text for a model and the files that the provider's format can carry. */
export function splitResult(result: ToolResult, isCarried: (file: FilePart) => boolean) {
  const files = result.attachments ?? [];
  const text = modelText(
    result,
    files.filter((file) => !isCarried(file)),
  );
  return { text, carried: files.filter(isCarried) };
}

/** The result's text for a model, with a line for each file that the provider's format cannot carry. */
export function modelText(result: ToolResult, files: readonly FilePart[] = []): string {
  const lines = files.map(fileLine);
  const text = textOf(result, lines.length === 0);
  return text === "" ? lines.join("\n") : [text, ...lines].join("\n");
}

function textOf(result: ToolResult, isAlone: boolean): string {
  if (result.content !== "") return result.content;
  if (result.error !== undefined) return result.error.message;
  if (result.structured === undefined || !isAlone) return "";
  return JSON.stringify(result.structured) ?? "";
}

/** The line that stands for a file in a text. */
export function fileLine(file: FilePart): string {
  const name = file.filename === undefined ? file.mime : `${file.filename}, ${file.mime}`;
  return file.url.startsWith("data:") ? `[attached: ${name}]` : `[attached: ${name}, ${file.url}]`;
}
