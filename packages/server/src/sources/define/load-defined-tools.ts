import { readdir } from "node:fs/promises";
import { join, relative } from "node:path";
import { pathToFileURL } from "node:url";
import type { ToolInfo } from "@toolrack/core";

export interface LoadedTools {
  readonly tools: readonly ToolInfo[];
  /** What could not be loaded, one line each: the file and the reason. */
  readonly failures: readonly string[];
}

/** Loads every tool that the files of a workspace's `tools` folder export. A bad file stops nothing else. */
export async function loadDefinedTools(workspace: string): Promise<LoadedTools> {
  const folder = join(workspace, "tools");
  const tools: ToolInfo[] = [];
  const failures: string[] = [];
  for (const file of await toolFiles(folder)) {
    const origin = relative(workspace, file);
    try {
      const exports: Record<string, unknown> = await import(pathToFileURL(file).href);
      const found = Object.values(exports).filter(isToolInfo);
      if (found.length === 0)
        failures.push(`${origin}: exports no tool. Export a value made by Tool.define.`);
      tools.push(...found.map((info) => ({ ...info, origin })));
    } catch (thrown) {
      failures.push(`${origin}: ${thrown instanceof Error ? thrown.message : String(thrown)}`);
    }
  }
  return { tools, failures };
}

async function toolFiles(folder: string): Promise<string[]> {
  const names = await readdir(folder);
  return names
    .filter((name) => /\.(ts|mts|js|mjs)$/.test(name))
    .sort()
    .map((name) => join(folder, name));
}

function isToolInfo(value: unknown): value is ToolInfo {
  if (typeof value !== "object" || value === null) return false;
  const { name, parameters, execute } = value as Partial<ToolInfo>;
  return typeof name === "string" && typeof parameters === "object" && typeof execute === "function";
}
