import type { ToolInfo } from "@toolrack/core";
import { mayBeCalledBy, tokenShare, toSignatures } from "@toolrack/core/internal";
import { declaredTool, isHelperTool, runToolName } from "../calls/index.ts";
import { namespaceOf, type ToolPaths } from "./tool-paths.ts";

/** How many tokens the catalogue may cost a model's context. */
const MOST_TOKENS = 2_000;
/** Lengths of a tool's line, from its bare name to its whole signature. */
const LENGTHS = ["name", 3, 2, 1] as const;

interface Line {
  readonly tool: ToolInfo;
  readonly name: string;
  text: string;
  tokens: number;
}

/**
 * The tools that code can call, as lines of TypeScript below their namespaces. Every namespace gets its fair share: in each
 * round each one adds a tool, or makes the line of a tool longer, until the tokens are used up.
 */
export function catalogueOf(tools: readonly ToolInfo[], paths: ToolPaths): string {
  const spaces = new Map<string, ToolInfo[]>();
  let total = 0;
  for (const tool of tools) {
    if (!isForCode(tool)) continue;
    total++;
    const namespace = namespaceOf(tool);
    const own = spaces.get(namespace);
    if (own === undefined) spaces.set(namespace, [tool]);
    else own.push(tool);
  }
  const names = [...spaces.keys()].sort();
  // The first line is written last, when it is known how many tools follow.
  let left = MOST_TOKENS - tokenShare(headOf(total, total + 1));
  const shown = new Map<string, Line[]>(names.map((name) => [name, []]));
  /** Writes the line in this length, if there is room for it. */
  const write = (line: Line, length: (typeof LENGTHS)[number]): boolean => {
    const text = length === "name" ? line.name : signatureOf(line, length);
    const tokens = tokenShare(`${text}\n`);
    if (left + line.tokens - tokens < 0) return false;
    left += line.tokens - tokens;
    Object.assign(line, { text, tokens });
    return true;
  };
  for (const name of names) left -= tokenShare(`// tools.${name}\n`);
  for (const [round, length] of LENGTHS.entries()) {
    const open = new Set(names);
    for (let at = 0; open.size > 0; at++) {
      for (const name of open) {
        const tool = spaces.get(name)?.[at];
        const lines = shown.get(name)!;
        const line = lines[at] ?? (tool && { tool, name: paths.of(tool.name)!.name, text: "", tokens: 0 });
        const isWritten = line !== undefined && (round === 0 || at < lines.length) && write(line, length);
        if (!isWritten) open.delete(name);
        else if (round === 0) lines.push(line);
      }
    }
  }
  const count = [...shown.values()].reduce((sum, lines) => sum + lines.length, 0);
  const blocks = names.flatMap((name) => [`// tools.${name}`, ...shown.get(name)!.map(({ text }) => text)]);
  return [headOf(count, total), ...blocks].join("\n");
}

function headOf(count: number, total: number): string {
  if (count === total) return `COMPLETE: these are all ${total} tools. describe(name) tells all of one.`;
  return `PARTIAL: ${count} of ${total} tools. search(words) finds the others, describe(name) tells all of one.`;
}

function signatureOf({ tool, name }: Line, length: number): string {
  const versions = toSignatures({ ...declaredTool(tool), name });
  return versions[length] ?? name;
}

/** Whether code may call the tool: not those that only help a model to reach others, which code has as functions. */
export function isForCode(tool: ToolInfo): boolean {
  return !isHelperTool(tool.name) && tool.name !== runToolName && mayBeCalledBy("code", tool.metadata);
}
