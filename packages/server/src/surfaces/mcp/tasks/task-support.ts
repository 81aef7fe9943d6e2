import { MissingRequiredClientCapabilityError } from "@modelcontextprotocol/server";
import type { ToolInfo } from "@toolrack/core";
import { meantTool } from "../../../meta-tools/meta-tools.ts";
import type { ClientAbilities } from "../client-abilities.ts";
import type { McpParts } from "../mcp-parts.ts";
import type { ToolCallParams } from "../start-tool-call.ts";
import type { Viewer } from "../viewer.ts";

export const tasksExtension = "io.modelcontextprotocol/tasks";

/** How a tool takes part in tasks, as its `metadata.task` says. */
export interface TaskSupport {
  /** `required`: too long for any client that cannot come back for the result. */
  readonly support: "optional" | "required";
  /** What it asks at the beginning is asked before the call becomes a task. */
  readonly asksFirst: boolean;
}

/** How a call takes part in tasks: as the tool does that it reaches, by whatever way. Undefined: its result is waited for. */
export function taskSupportOf(
  { registry }: Pick<McpParts, "registry">,
  viewer: Viewer,
  params: ToolCallParams,
): TaskSupport | undefined {
  const info = meantTool(registry, params);
  const support = info && supportOf(info);
  return support !== undefined && viewer.sees(info!) ? support : undefined;
}

function supportOf({ metadata: { task } }: ToolInfo): TaskSupport | undefined {
  if (task === "optional" || task === "required") return { support: task, asksFirst: false };
  if (typeof task !== "object" || task === null) return undefined;
  const { support = "optional", asksFirst = false } = task as Partial<TaskSupport>;
  return { support, asksFirst };
}

export function knowsTasks({ extensions }: ClientAbilities): boolean {
  return extensions?.[tasksExtension] !== undefined;
}

/** `name`: of the tool that is called, where one is. */
export function missingTasks(name?: string): MissingRequiredClientCapabilityError {
  const message =
    name === undefined
      ? undefined
      : `The tool "${name}" takes longer than a client should wait, and this client knows no tasks. It did not run. Call it from a client of MCP 2026-07-28 that declares the extension ${tasksExtension}.`;
  return new MissingRequiredClientCapabilityError(
    { requiredCapabilities: { extensions: { [tasksExtension]: {} } } },
    message,
  );
}
