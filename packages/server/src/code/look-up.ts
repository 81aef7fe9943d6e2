import type { ToolContext, ToolInfo, ToolResult } from "@toolrack/core";
import { signatureOf } from "@toolrack/core/format";
import { toSignatures } from "@toolrack/core/internal";
import { declaredTool } from "../calls/index.ts";
import { reasonOf } from "../helpers/index.ts";
import { isForCode } from "./catalogue.ts";
import type { ToolPaths } from "./tool-paths.ts";

const USUAL_LIMIT = 10;
const MOST = 50;
const LONGEST_LINE = 400;

/** Answers `search` or `describe` in code, in the form of a tool's result. */
export async function lookUp(
  method: "search" | "describe",
  context: Pick<ToolContext, "registry">,
  paths: ToolPaths,
  args: readonly unknown[],
): Promise<ToolResult> {
  try {
    const value =
      method === "search" ? await findTools(context, paths, args) : describeTool(context, paths, args[0]);
    return { content: JSON.stringify(value), type: "json" };
  } catch (thrown) {
    const message = reasonOf(thrown);
    const error = { name: "ToolError", code: "execution_failed", message, recoverable: true } as const;
    return { content: message, type: "error", error };
  }
}

/** A tool as `search` in code shows it: its path, such as `tools.github.create_issue`, and a line that says what it takes. */
interface FoundTool {
  readonly path: string;
  readonly signature: string;
}

/** `search(words, limit?)`: tools that code may call and its caller may use, the best first. */
async function findTools(
  { registry }: Pick<ToolContext, "registry">,
  paths: ToolPaths,
  [words, wanted]: readonly unknown[],
): Promise<FoundTool[]> {
  const query = String(words ?? "").trim();
  const limit = Math.min(MOST, Math.max(1, Math.trunc(Number(wanted ?? USUAL_LIMIT)) || USUAL_LIMIT));
  await registry.prepareSearch();
  const exact = toolNamed(registry, paths, query);
  const found = new Set([...(exact ? [exact] : []), ...registry.search(query, limit + 5)]);
  return [...found]
    .filter((tool) => tool.disabled !== true && isForCode(tool))
    .slice(0, limit)
    .map((tool) => {
      const [whole = "", shorter = whole] = toSignatures({
        ...declaredTool(tool),
        name: nameOf(tool, paths),
      });
      return { path: pathOf(tool, paths), signature: whole.length > LONGEST_LINE ? shorter : whole };
    });
}

/** `describe(name)`: all that is known of a tool. Throws for a tool that the caller may not use. */
function describeTool({ registry }: Pick<ToolContext, "registry">, paths: ToolPaths, name: unknown): object {
  const tool = toolNamed(registry, paths, String(name ?? ""));
  if (tool === undefined || !isForCode(tool))
    throw new Error(
      `There is no tool "${String(name).slice(0, 200)}". search(words) finds those that there are.`,
    );
  const declared = declaredTool(tool);
  const { description, inputSchema, outputSchema } = declared;
  const signature = signatureOf({ ...declared, name: nameOf(tool, paths) });
  return {
    path: pathOf(tool, paths),
    description,
    signature,
    inputSchema,
    outputSchema,
  };
}

/** Finds a tool by its path, with or without `tools.`, or by its name on the rack. */
function toolNamed(
  registry: Pick<ToolContext["registry"], "get">,
  paths: ToolPaths,
  text: string,
): ToolInfo | undefined {
  const parts = text.replace(/^tools\./, "").split(".");
  const name = paths.find(parts);
  return registry.get(name ?? text);
}

function pathOf({ name }: ToolInfo, paths: ToolPaths): string {
  const path = paths.of(name);
  return path === undefined ? `tools.${name}` : `tools.${path.namespace}.${path.name}`;
}

function nameOf({ name }: ToolInfo, paths: ToolPaths): string {
  return paths.of(name)?.name ?? name;
}
