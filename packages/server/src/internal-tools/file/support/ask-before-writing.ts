import { basename } from "node:path";
import type { InternalToolContext } from "../../../sources/internal/contract.ts";
import { isInside, realPathOf, showPath } from "../../confine.ts";

/**
 * Asks for consent before something is put at a confined path where a file has power beyond its content: where it
 * would run as a tool, change the settings or the log, or lie outside the workspace's own directory. Rejects unless
 * the answer is yes.
 */
export async function askBeforeWriting(
  { workspace, ask }: Pick<InternalToolContext, "workspace" | "ask">,
  real: string,
): Promise<void> {
  const reason = await reasonToAsk(workspace, real);
  if (reason === undefined) return;
  const shown = await showPath(workspace, real);
  await ask({ message: `Write ${shown}? ${reason}`, details: { path: shown } });
}

async function reasonToAsk(
  workspace: InternalToolContext["workspace"],
  real: string,
): Promise<string | undefined> {
  const { directory, toolFolders = [], logFile } = workspace;
  for (const folder of await Promise.all(toolFolders.map((path) => realPathOf(path)))) {
    // A folder that is put above the tools may bring some along.
    if (isInside(folder, real) || isInside(real, folder)) return "What lies there runs as a tool.";
  }
  const name = basename(real);
  if (/^toolrack\.config\./i.test(name)) return "It is a config of Toolrack, which runs as code.";
  if (/^\.env(\.|$)/i.test(name)) return "It sets environment variables.";
  const log = logFile === undefined ? undefined : await realPathOf(logFile);
  if (log !== undefined && (isInside(real, log) || real.startsWith(`${log}.`)))
    return "It is the log of all calls.";
  return isInside(await realPathOf(directory), real)
    ? undefined
    : "It lies outside the workspace's directory.";
}
