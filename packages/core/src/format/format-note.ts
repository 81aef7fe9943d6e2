/**
 * What became of a part that a provider does not take.
 * - `described`: said in the description instead
 * - `rewritten`: said in another way, with the same meaning or a wider one
 * - `dropped`: not sent
 * - `shortened`: cut to the provider's limit
 * - `not_strict`: the tool is sent without strict mode
 * - `left_out`: the tool is not sent at all
 */
export type FormatAction = "described" | "rewritten" | "dropped" | "shortened" | "not_strict" | "left_out";

/** One thing a provider is told differently from how the tool says it. The rack still checks the original. */
export interface FormatNote {
  /** The tool's name on the rack. */
  readonly tool: string;
  /** JSON pointer into the tool's input schema; empty for its root and for the tool itself. */
  readonly path: string;
  /** The schema keyword, or `name`, `description`, `schema` for the tool itself. */
  readonly keyword: string;
  readonly action: FormatAction;
  readonly message: string;
}

/** Takes down what a lowering step did; the formatter knows which tool it is about. */
export type TakeNote = (path: string, keyword: string, action: FormatAction, message: string) => void;

export function pointer(path: string, ...keys: (string | number)[]): string {
  return path + keys.map((key) => `/${String(key).replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
}
