import type { en } from "./en.ts";

/** The texts of the console: the keys of the English ones, in any language. */
export type Messages = Texts<typeof en>;

type Texts<Shape> = { readonly [Key in keyof Shape]: Shape[Key] extends string ? string : Texts<Shape[Key]> };
