import type { ToolErrorCode } from "@toolrack/core";
import type { Recorded, RecordedCall } from "./recorded.ts";
import type { SurfaceName } from "./surface.ts";

/** What a call returns, in one form for all surfaces. A field that the surface has no place for is left out. */
export interface Answer {
  readonly text?: string;
  readonly isError?: boolean;
  readonly code?: ToolErrorCode;
  readonly structured?: unknown;
  /** Base64. */
  readonly images?: readonly string[];
  readonly progress?: readonly [progress: number, total?: number, message?: string][];
  /** The code of an error that the surface returns instead of a result. */
  readonly refusal?: string | number;
}

/** How the answer or the record of one surface differs from those of the others, and why. */
export interface Exception {
  readonly reason: string;
  /** The fields of the answer that differ, or `none` when the surface returns nothing. */
  readonly answer?: Answer | "none";
  /** The fields of the record that differ, or `none` when the request never became a call. */
  readonly record?: Partial<Recorded> | "none";
}

/** A call that every surface makes. */
export interface SampleCall {
  readonly title: string;
  readonly tool: string;
  /** An object, or the text that a model wrote. */
  readonly args: Readonly<Record<string, unknown>> | string;
  /** When true, the call is cancelled in the surface's own way as soon as the tool runs. */
  readonly isCancelled?: true;
  readonly answer: Answer;
  /** The fields of the record that the test checks. All others must equal those of the library's record. */
  readonly record: Partial<RecordedCall> & { readonly made?: readonly Partial<RecordedCall>[] };
  readonly except?: Partial<Record<SurfaceName, Exception>>;
}
