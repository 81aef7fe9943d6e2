import type { ToolInfo } from "@toolrack/core";
import { callToolName } from "../../../meta-tools/meta-tools.ts";

/** Whether a call of the tool that was interrupted may be made again without doing anything twice. */
export function isRepeatable(info: ToolInfo | undefined): boolean {
  if (info === undefined) return false;
  const { readOnly, idempotent } = info.metadata;
  // It does nothing but call another, which waits for consent and so has not run.
  return readOnly === true || idempotent === true || info.name === callToolName;
}
