import { type Component, type ComputedRef, type InjectionKey, inject, provide, type Ref } from "vue";
import type { ApiError } from "../api/index.ts";
import { issueText } from "../text/index.ts";
import type { FieldNode } from "./field-node.ts";

export interface FormContext {
  /** What the server says is wrong with the values, by the path of each value. */
  readonly issues: ComputedRef<ReadonlyMap<string, string>>;
  readonly disabled: ComputedRef<boolean>;
  /** Called by a field: whether its typed text is not a valid value yet. */
  report(path: string, isProblem: boolean): void;
  /** Whether the text typed at or below the path is not a valid value yet. */
  isBroken(path: string): boolean;
  readonly largest: ComputedRef<number | undefined>;
  /** Changes when the page replaces all values; fields then drop unfinished typed text. */
  readonly replaced: Readonly<Ref<number>>;
  idOf(path: string): string;
  /**
   * Draws the control of any field. Passed here, because fields contain fields and files must not import each other in
   * circles.
   */
  readonly body: Component;
}

export interface ControlAttributes {
  readonly id: string;
  readonly disabled: boolean;
  readonly "aria-label": string | undefined;
  readonly "aria-describedby": string | undefined;
  readonly "aria-invalid": boolean;
}

export interface FieldProps<Kind extends FieldNode["kind"]> {
  node: Extract<FieldNode, { kind: Kind }>;
  path: string;
  label: string;
  control: ControlAttributes;
  isRoot?: boolean;
  isJson?: boolean;
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

/** What the server says is wrong with the arguments, by path; only the first message for each path. */
export function issuesOf(error: ApiError | undefined): ReadonlyMap<string, string> {
  const issues: unknown = error?.code === "invalid_arguments" ? error.details.issues : [];
  const known = (Array.isArray(issues) ? issues : []).filter(
    (issue) => typeof issue?.path === "string" && typeof issue.message === "string",
  );
  return new Map(known.toReversed().map((issue) => [issue.path, issueText(issue)]));
}
