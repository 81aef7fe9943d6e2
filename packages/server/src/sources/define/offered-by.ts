import { Prompt, type PromptInfo, Resource, type ResourceInfo } from "@toolrack/core";

/** The prompts and resources that a file exports beside its tools, one or many, in lists too. */
export function offeredBy(exports: Record<string, unknown>): {
  readonly prompts: readonly PromptInfo[];
  readonly resources: readonly ResourceInfo[];
} {
  // The same one is often exported twice: by its name and as the default.
  const values = [...new Set(Object.values(exports).flat())];
  return { prompts: values.filter(Prompt.is), resources: values.filter(Resource.is) };
}
