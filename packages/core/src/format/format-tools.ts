import type { ToolInfo } from "../tool/info.ts";
import { type ToolDefinition, toDefinition } from "./definition.ts";
import type { FormatNote, TakeNote } from "./format-note.ts";
import { byCodeUnit, type NameRule, providerNames } from "./provider-names.ts";
import type { ToolCallRequest } from "./tool-call-request.ts";

/** Tools as a provider takes them, and the way back from what the provider says of them. */
export interface FormattedTools<Tool> {
  /** Sorted by name, so that the same tools always give the same text and prompt caches hold. */
  readonly tools: readonly Tool[];
  /** Everything that is sent differently from how the tools say it. */
  readonly notes: readonly FormatNote[];
  /** The rack's name of a tool the provider names; an unknown name comes back as it is. */
  nameOf(providerName: string): string;
  /** The provider's name of a tool on the rack, as history and `tool_choice` need it. */
  providerNameOf(name: string): string;
  /** The call as the rack understands it: its own name, and arguments in the shape of the tool's own schema. */
  restore(call: ToolCallRequest): ToolCallRequest;
}

/** A tool in the provider's shape; `restore` undoes what its schema's rewriting did to the arguments. */
export interface FormattedTool<Tool> {
  readonly tool: Tool;
  readonly restore?: (args: unknown) => unknown;
}

export interface ProviderFormat<Tool> {
  readonly names: NameRule;
  /** May throw: the tool is then left out, and a note says why. */
  format(definition: ToolDefinition, providerName: string, note: TakeNote): FormattedTool<Tool>;
}

/** Formats each tool on its own: one that cannot be formatted never spoils the others. */
export function formatTools<Tool>(
  tools: Iterable<ToolInfo | ToolDefinition>,
  provider: ProviderFormat<Tool>,
): FormattedTools<Tool> {
  const sorted = [...tools].sort((a, b) => byCodeUnit(a.name, b.name));
  const toProvider = providerNames(
    sorted.map((tool) => tool.name),
    provider.names,
  );
  const toRack = new Map([...toProvider].map(([name, providerName]) => [providerName, name]));
  const restorers = new Map<string, (args: unknown) => unknown>();
  const formatted: Tool[] = [];
  const notes: FormatNote[] = [];
  let previous: string | undefined;
  for (const source of sorted) {
    const take: TakeNote = (path, keyword, action, message) =>
      notes.push({ tool: source.name, path, keyword, action, message });
    if (source.name === previous) {
      take("", "name", "left_out", "Another tool of this list has the same name.");
      continue;
    }
    previous = source.name;
    const own: Parameters<TakeNote>[] = [];
    try {
      const definition = withProperText("inputSchema" in source ? source : toDefinition(source));
      const providerName = toProvider.get(source.name) ?? source.name;
      if (providerName !== source.name) own.push(["", "name", "rewritten", `Sent as ${providerName}.`]);
      const result = provider.format(definition, providerName, (...note) => own.push(note));
      formatted.push(result.tool);
      if (result.restore) restorers.set(source.name, result.restore);
      for (const note of own) take(...note);
    } catch (error) {
      take("", "schema", "left_out", `Its schema cannot be sent: ${reasonOf(error)}.`);
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

/** Sources outside TypeScript give `null` for what they do not say. */
function withProperText(definition: ToolDefinition): ToolDefinition {
  const { title, description, ...rest } = definition;
  return {
    ...rest,
    ...(typeof title === "string" && { title }),
    ...(typeof description === "string" && { description }),
  };
}

function reasonOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  // What JSON.stringify says of a circular object runs over several lines.
  return (message.split("\n")[0] ?? "").replace(/\.$/, "");
}
