import { shellWords } from "./shell-words.ts";

/** A command of the program that runs in any folder, for the workspace that this is the console of, where the server tells both. */
export function programLine(
  server: { readonly program?: readonly string[]; readonly workspace?: string } | undefined,
  ...words: readonly string[]
): string {
  const { program = ["toolrack"], workspace } = server ?? {};
  return shellWords([...program, ...words, ...(workspace === undefined ? [] : ["--dir", workspace])]);
}
