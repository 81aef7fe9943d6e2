import { type Confinement, isInside, realRoots } from "../../confine.ts";

/** Rejects when doing away with `real` would do away with a root of the workspace. */
export async function refuseRoot(
  workspace: Confinement,
  real: string,
  shown: string,
  verb: string,
): Promise<void> {
  const roots = await realRoots(workspace);
  if (!roots.some((root) => isInside(real, root))) return;
  const which = roots.includes(real) ? "is a root of the workspace" : "holds a root of the workspace";
  throw new Error(`${shown} ${which} and cannot be ${verb}. Name the files or folders in it instead.`);
}
