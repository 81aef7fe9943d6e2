import { outOfReach } from "../../error/messages.ts";
import { PermissionDeniedError } from "../../error/tool-error.ts";
import type { ToolInfo } from "../../tool/info.ts";
import type { CallFrame } from "../frame.ts";
import { covers } from "./permit.ts";

/** Refuses a tool that is outside the caller's limits, before anything of it, such as its schema, shows. */
export function reach(frame: CallFrame): void {
  const { parent, options } = frame;
  if (options.allow === undefined && parent === undefined) return;
  const { info } = frame.tool;
  if (options.allow?.(info) !== false && (parent === undefined || isWithinReach(info, parent))) return;
  throw new PermissionDeniedError(outOfReach(info.name, parent?.toolName), {
    toolName: info.name,
    input: frame.raw,
  });
}

/** Whether a call may reach a tool on behalf of those above it: no limit of theirs keeps it out, as far as none of them vouches for it. */
export function isWithinReach(tool: ToolInfo, from: CallFrame): boolean {
  for (let at: CallFrame | undefined = from; at !== undefined; at = at.parent) {
    if (at.entry?.info.metadata.calls?.some((pattern) => covers(pattern, tool.name))) return true;
    if (at.options.allow?.(tool) === false) return false;
  }
  return true;
}
