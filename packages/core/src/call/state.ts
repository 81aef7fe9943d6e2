import type { FilePart } from "../tool/result.ts";

interface StateBase {
  readonly input: Record<string, unknown>;
  readonly title?: string;
  readonly metadata?: Readonly<Record<string, unknown>>;
}

/** Where a call stands. It moves `pending → running → completed | error`; a finished state never changes. */
export type ToolState =
  | (StateBase & { readonly status: "pending"; readonly raw?: string })
  | (StateBase & { readonly status: "running"; readonly time: { readonly start: number } })
  | (StateBase & {
      readonly status: "completed";
      readonly output: string;
      readonly attachments?: readonly FilePart[];
      readonly time: { readonly start: number; readonly end: number };
    })
  | (StateBase & {
      readonly status: "error";
      readonly error: string;
      readonly time: { readonly start: number; readonly end: number };
    });

export type ToolStatus = ToolState["status"];
