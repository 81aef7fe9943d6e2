import { type ComputedRef, type InjectionKey, inject, provide, type Ref } from "vue";
import type { ApiError } from "../api/index.ts";

/** What all fields of one form share. */
export interface FormContext {
  /** What the server said about places in the arguments, by path. */
  readonly issues: ComputedRef<ReadonlyMap<string, string>>;
  readonly disabled: ComputedRef<boolean>;
  /** A field tells that what was typed is no value yet, or that it is one again. */
  report(path: string, isProblem: boolean): void;
  /** Whether what is typed there, or anywhere in it, is no value yet. */
  isBroken(path: string): boolean;
  /** How many bytes the arguments may have in all, where that is known. */
  readonly largest: ComputedRef<number | undefined>;
  /** Changes when all values come from elsewhere: what was typed and is no value yet is then of no use. */
  readonly replaced: Readonly<Ref<number>>;
  idOf(path: string): string;
}

/** What every control of a form is told: whether it can be used, and what people hear who do not see it. */
export interface ControlAttributes {
  readonly id: string;
  readonly disabled: boolean;
  readonly "aria-label": string | undefined;
  readonly "aria-describedby": string | undefined;
  readonly "aria-invalid": boolean;
}

const key: InjectionKey<FormContext> = Symbol("form");

export function provideForm(context: FormContext): void {
  provide(key, context);
}

export function useForm(): FormContext {
  const context = inject(key);
  if (context === undefined) throw new Error("A field was drawn outside of a SchemaForm.");
  return context;
}

/** What the server said about places in the arguments, by path. */
export function issuesOf(error: ApiError): ReadonlyMap<string, string> {
  const { issues } = error.details;
  if (error.code !== "invalid_arguments" || !Array.isArray(issues)) return new Map();
  const found = new Map<string, string>();
  for (const issue of issues) {
    if (typeof issue?.path === "string" && typeof issue.message === "string" && !found.has(issue.path)) {
      found.set(issue.path, issue.message);
    }
  }
  return found;
}
