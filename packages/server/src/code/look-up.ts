import { signatureOf, type ToolContext, type ToolInfo } from "@toolrack/core";
import { firstSentence } from "@toolrack/core/internal";
import { declaredTool } from "../calls/index.ts";
import { isForCode } from "./catalogue.ts";
import type { ToolPaths } from "./tool-paths.ts";

const USUAL_LIMIT = 10;
const MOST = 50;

/** A tool as `search` in code shows it. */
interface FoundTool {
  /** As it is written in code: `tools.github.create_issue`. */
  readonly path: string;
  readonly description: string;
  /** A method of TypeScript. */
  readonly signature: string;
}

/** `search(words, limit?)`: tools that code may call and its caller may use, the best first. */
export async function findTools(
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
    .map((tool) => ({
      path: pathOf(tool, paths),
      description: firstSentence(tool.description ?? "", 200),
      signature: signature(tool, paths),
    }));
}

/** `describe(name)`: all that is known of a tool. Throws for a tool that the caller may not use. */
export function describeTool(
  { registry }: Pick<ToolContext, "registry">,
  paths: ToolPaths,
  name: unknown,
): object {
  const tool = toolNamed(registry, paths, String(name ?? ""));
  if (tool === undefined || !isForCode(tool))
    throw new Error(
      `There is no tool "${String(name).slice(0, 200)}". search(words) finds those that there are.`,
    );
  const { description, inputSchema, outputSchema } = declaredTool(tool);
  return {
    path: pathOf(tool, paths),
    description,
    signature: signature(tool, paths),
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

function signature(tool: ToolInfo, paths: ToolPaths): string {
  return signatureOf({ ...declaredTool(tool), name: paths.of(tool.name)?.name ?? tool.name });
}
