import type { ToolInfo } from "../tool/info.ts";
import type { ToolResult } from "../tool/result.ts";

export interface RegistryStats {
  readonly totalTools: number;
  readonly disabledTools: number;
  readonly categories: Readonly<Record<string, number>>;
}

/** Reads of the rack. All of them see one moment: a change elsewhere never shows half. */
export interface RegistryReader {
  get(name: string): ToolInfo | undefined;
  getAll(): ToolInfo[];
  list(category?: string): ToolInfo[];
  /** The best first; at most 20, or so many. */
  search(query: string, limit?: number): ToolInfo[];
  findByTag(tag: string): ToolInfo[];
  getStats(): RegistryStats;
}

/** The rack as a running tool sees it: reads, and calls that become children of its own. */
export interface RegistryView extends RegistryReader {
  execute(name: string, input?: unknown): Promise<ToolResult>;
}
