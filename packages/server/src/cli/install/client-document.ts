import type { TextEdit } from "./text-edit.ts";

/** A client's configuration file, seen as the one entry in it that is ours. */
export interface ClientDocument {
  /** What stands under the name; undefined when nothing does. */
  readonly entry: unknown;
  /** The edits that put the entry there. Throws `SyntaxError` when it is not certain that nothing else would change. */
  set(entry: Readonly<Record<string, unknown>>): TextEdit[];
  /** The edits that take it away. Throws like `set`. */
  remove(): TextEdit[];
}
