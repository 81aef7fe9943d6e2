import type { ToolErrorCode } from "@toolrack/core";
import type { Recorded, RecordedCall } from "./recorded.ts";
import type { SurfaceName } from "./surface.ts";

/** What comes back of a call, in one form for all surfaces. What a surface does not carry is left out. */
export interface Answer {
  readonly text?: string;
  readonly isError?: boolean;
  readonly code?: ToolErrorCode;
  readonly structured?: unknown;
  /** Base64. */
  readonly images?: readonly string[];
  readonly progress?: readonly [progress: number, total?: number, message?: string][];
  /** Of an error that the surface answers with in place of any result. */
  readonly refusal?: string | number;
}

/** Where a surface by its nature answers or records differently. */
export interface Exception {
  readonly reason: string;
  /** What is different, or `none` when nothing can come back. */
  readonly answer?: Answer | "none";
  /** What is different, or `none` when it never became a call. */
  readonly record?: Partial<Recorded> | "none";
}

/** One call as every surface is asked to make it. */
export interface SampleCall {
  readonly title: string;
  readonly tool: string;
  /** An object, or the text that a model wrote. */
  readonly args: Readonly<Record<string, unknown>> | string;
  /** Is cancelled, in the surface's own way, as soon as the tool runs. */
  readonly isCancelled?: true;
  readonly answer: Answer;
  /** What matters of the record; the rest must be as the library's. */
  readonly record: Partial<RecordedCall> & { readonly made?: readonly Partial<RecordedCall>[] };
  readonly except?: Partial<Record<SurfaceName, Exception>>;
}
