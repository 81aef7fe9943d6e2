import { permissionDenied } from "../../error/messages.ts";
import { PermissionDeniedError } from "../../error/tool-error.ts";
import type { CallFrame } from "../frame.ts";

/** Compares what the tool asks for with what the caller holds. */
export function permit(frame: CallFrame): void {
  const { info } = frame.tool;
  const required = requiredBy(frame);
  if (required === undefined || required.length === 0) return;
  const missing = required.filter(
    (permission) => !frame.permissions.some((held) => covers(held, permission)),
  );
  if (missing.length === 0) return;
  throw new PermissionDeniedError(permissionDenied(info.name, missing), {
    toolName: info.name,
    input: frame.input,
    data: { missing },
  });
}

function requiredBy({ tool, current }: CallFrame): readonly string[] | undefined {
  const own = tool.info.metadata.permissions;
  const since = current?.info.metadata.permissions;
  return since === undefined ? own : [...new Set([...(own ?? []), ...since])];
}

/** `file:*` covers `file:read`; `*` covers everything. */
export function covers(held: string, permission: string): boolean {
  if (!held.includes("*")) return held === permission;
  const parts = held.split("*");
  const first = parts[0]!;
  const last = parts.at(-1)!;
  if (!permission.startsWith(first) || permission.length < first.length + last.length) return false;
  let from = first.length;
  for (const part of parts.slice(1, -1)) {
    const found = permission.indexOf(part, from);
    if (found === -1) return false;
    from = found + part.length;
  }
  return permission.length - last.length >= from && permission.endsWith(last);
}
