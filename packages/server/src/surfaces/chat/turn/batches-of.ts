import type { ToolPart } from "./message-part.ts";

/** Calls in their order: neighbours that only read may be made side by side, any other is by itself. */
export function batchesOf(calls: readonly ToolPart[], isReadOnly: (part: ToolPart) => boolean): ToolPart[][] {
  const batches: ToolPart[][] = [];
  let isOpen = false;
  for (const part of calls) {
    const mayJoin = isReadOnly(part);
    if (mayJoin && isOpen) batches.at(-1)!.push(part);
    else batches.push([part]);
    isOpen = mayJoin;
  }
  return batches;
}
