import { type Component, type ComputedRef, type InjectionKey, inject, provide, type Ref } from "vue";
import type { ApiError } from "../api/index.ts";

export interface FormContext {
  /** What the server said about places in the arguments, by path. */
  readonly issues: ComputedRef<ReadonlyMap<string, string>>;
  readonly disabled: ComputedRef<boolean>;
  /** A field tells that what was typed is no value yet, or that it is one again. */
  report(path: string, isProblem: boolean): void;
  /** Whether what is typed there, or anywhere in it, is no value yet. */
  isBroken(path: string): boolean;
  readonly largest: ComputedRef<number | undefined>;
  /** Changes when all values come from elsewhere: what was typed and is no value yet is then of no use. */
  readonly replaced: Readonly<Ref<number>>;
  idOf(path: string): string;
  /** Draws the control of any field. Given here, as fields hold fields, and files must not import each other in circles. */
  readonly body: Component;
}

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

/** What the server said about places in the arguments, by path; of several about one place, the first. */
export function issuesOf(error: ApiError | undefined): ReadonlyMap<string, string> {
  const issues: unknown = error?.code === "invalid_arguments" ? error.details.issues : [];
  const known = (Array.isArray(issues) ? issues : []).filter(
    (issue) => typeof issue?.path === "string" && typeof issue.message === "string",
  );
  return new Map(known.toReversed().map(({ path, message }) => [path, message]));
}
