import { disabled, notFound, tooDeep } from "../../error/messages.ts";
import { ToolDisabledError, ToolExecutionError, ToolNotFoundError } from "../../error/tool-error.ts";
import type { CallFrame } from "../frame.ts";

/**
 * Finds the tool. The list that the caller was shown decides what a name means; what has been switched off or
 * taken down since then is refused all the same.
 */
export function resolve(frame: CallFrame): void {
  const { host, name, options } = frame;
  const current = host.find(name);
  const entry = current === undefined ? undefined : (options.snapshot?.find(name) ?? current);
  if (entry === undefined || current === undefined) {
    const suggestions = host.nearest(name);
    throw new ToolNotFoundError(notFound(name, suggestions, host.toolCount), {
      toolName: name,
      input: frame.raw,
      data: { suggestions },
    });
  }
  frame.entry = entry;
  if (current !== entry) frame.current = current;
  if (current.info.disabled) {
    throw new ToolDisabledError(disabled(entry.info.name, current.info.metadata.disabledReason), {
      toolName: entry.info.name,
      input: frame.raw,
    });
  }
  if (frame.depth > host.settings.maxDepth) {
    throw new ToolExecutionError(tooDeep(entry.info.name, host.settings.maxDepth), {
      toolName: entry.info.name,
      input: frame.raw,
    });
  }
}
