import { MissingRequiredClientCapabilityError } from "@modelcontextprotocol/server";
import type { ToolInfo } from "@toolrack/core";
import type { ClientAbilities } from "../client-abilities.ts";

export const tasksExtension = "io.modelcontextprotocol/tasks";

/** How a tool takes part in tasks, as its `metadata.task` says. */
export interface TaskSupport {
  /** `required`: too long for any client that cannot come back for the result. */
  readonly support: "optional" | "required";
  /** What it asks at the beginning is asked before the call becomes a task. */
  readonly asksFirst: boolean;
}

/** Undefined: its result is waited for. */
export function taskSupportOf({ metadata: { task } }: ToolInfo): TaskSupport | undefined {
  if (task === "optional" || task === "required") return { support: task, asksFirst: false };
  if (typeof task !== "object" || task === null) return undefined;
  const { support = "optional", asksFirst = false } = task as Partial<TaskSupport>;
  return { support, asksFirst };
}

export function knowsTasks({ extensions }: ClientAbilities): boolean {
  return extensions?.[tasksExtension] !== undefined;
}

export function missingTasks(): MissingRequiredClientCapabilityError {
  return new MissingRequiredClientCapabilityError({
    requiredCapabilities: { extensions: { [tasksExtension]: {} } },
  });
}
