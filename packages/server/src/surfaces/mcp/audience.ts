import type { Viewer } from "./viewer.ts";

export type ListKind = "tools" | "prompts" | "resources";

/** A client that is told when its lists change, as long as it is connected. */
export interface Audience {
  readonly viewer: Viewer;
  /** Never throws. */
  tell(kind: ListKind): void;
}
