/** Something that a file declares. */
export interface CodeSymbol {
  readonly kind: SymbolKind;
  readonly name: string;
  readonly line: number;
  readonly endLine: number;
  readonly exported: boolean;
  /** The declaration up to its body, of functions and methods. */
  readonly signature?: string;
  /** Methods and properties, members of an enum, what a namespace declares. */
  readonly members?: readonly CodeSymbol[];
}

export type SymbolKind =
  | "function"
  | "class"
  | "interface"
  | "type"
  | "enum"
  | "namespace"
  | "variable"
  | "constructor"
  | "method"
  | "getter"
  | "setter"
  | "property"
  | "member";

export interface Import {
  readonly from: string;
  /** As they are written: `x`, `a as b`, `* as all`; empty for an import of effects only. */
  readonly names: readonly string[];
  readonly line: number;
}

export interface Outline {
  readonly symbols: readonly CodeSymbol[];
  readonly imports: readonly Import[];
  /** Names under which others see something; `* from "x"` for all of another file. */
  readonly exports: readonly string[];
}
