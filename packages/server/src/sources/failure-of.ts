import { readFile } from "node:fs/promises";
import { relative } from "node:path";
import { codeFrame } from "./loader/code-frame.ts";
import { LoadError, type LoadFailure } from "./loader/load-failure.ts";
import type { StackMapper } from "./loader/stack-mapper.ts";

/** Why a file could not be loaded, by what was thrown while it was. */
export async function failureOf(
  path: string,
  thrown: unknown,
  workspace: string,
  stacks: StackMapper,
): Promise<LoadFailure> {
  const file = relative(workspace, path);
  if (!(thrown instanceof LoadError)) {
    const line = stacks.lineOf(thrown, path);
    const reason = thrown instanceof Error ? thrown.message : String(thrown);
    const remedy = "Correct the definition of the tool.";
    return { file, ...(line === undefined ? {} : { line }), reason, remedy, ...(await frameOf(path, line)) };
  }
  const { line, column, remedy } = thrown;
  const culprit = thrown.path !== undefined && thrown.path !== path ? thrown.path : undefined;
  const place = line === undefined ? "" : `:${line}`;
  const reason =
    culprit === undefined ? thrown.message : `${thrown.message} (in ${relative(workspace, culprit)}${place})`;
  return {
    file,
    ...(line === undefined || culprit !== undefined ? {} : { line }),
    reason,
    remedy,
    ...(await frameOf(culprit ?? path, line, column)),
  };
}

async function frameOf(path: string, line?: number, column?: number): Promise<{ frame?: string }> {
  if (line === undefined) return {};
  // The file may be gone by now; that it could not be loaded is said without it.
  const source = await readFile(path, "utf8").catch(() => "");
  const frame = codeFrame(source, line, column);
  return frame === undefined ? {} : { frame };
}
