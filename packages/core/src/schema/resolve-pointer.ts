import { memberAt } from "./member-at.ts";

/** What a local reference such as `#/$defs/user` points to, or `undefined`. */
export function resolvePointer(root: unknown, reference: string): unknown {
  return memberAt(root, pointerSteps(reference));
}

/** `#/a/0/b~1c` as `["a", "0", "b/c"]`. A URI fragment may also be percent-encoded. */
export function pointerSteps(reference: string): string[] {
  const [, ...steps] = decode(reference.replace(/^#/, "")).split("/");
  return steps.map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));
}

function decode(fragment: string): string {
  if (!fragment.includes("%")) return fragment;
  try {
    return decodeURIComponent(fragment);
  } catch {
    return fragment;
  }
}
