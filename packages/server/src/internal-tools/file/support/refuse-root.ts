import { type Confinement, isInside, ownFolders, realRoots } from "../../confine.ts";

/** Rejects when doing away with `real` would do away with a root of the workspace, or with the server's own files. */
export async function refuseRoot(
  workspace: Confinement,
  real: string,
  shown: string,
  verb: string,
): Promise<void> {
  const which = await reasonToRefuse(workspace, real);
  if (which === undefined) return;
  throw new Error(`${shown} ${which} and cannot be ${verb}. Name the files or folders in it instead.`);
}

async function reasonToRefuse(workspace: Confinement, real: string): Promise<string | undefined> {
  const roots = await realRoots(workspace);
  if (roots.includes(real)) return "is a root of the workspace";
  if (roots.some((root) => isInside(real, root))) return "holds a root of the workspace";
  const own = await ownFolders(workspace);
  return own.some((folder) => isInside(real, folder)) ? "holds files of the server itself" : undefined;
}
