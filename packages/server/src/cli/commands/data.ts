import { join } from "node:path";
import type { Cli } from "../cli.ts";
import { CliError, usageError } from "../cli-error.ts";
import { amount } from "../text.ts";
import { findWorkspace } from "../workspace.ts";

/** `toolrack data`: what sandboxed tools and skills have kept in their folders. Works with and without a server. */
export async function data(
  cli: Cli,
  action: "list" | "clear" = "list",
  name: string | undefined,
): Promise<void> {
  // Imported late, so that help and usage errors do not wait for the sandbox.
  const { DataFolders } = await import("../../sandbox/index.ts");
  const folder = join(findWorkspace(cli), ".toolrack", "data");
  const folders = new DataFolders(folder);
  const kept = await folders.list();
  if (action === "list") {
    cli.answer({ folder, data: kept }, () => {
      const rows = kept.map((one) => [one.name, String(one.files), String(one.bytes)]);
      if (rows.length > 0) cli.table(["NAME", "FILES", "BYTES"], rows, { flexible: 0 });
      cli.talk(rows.length === 0 ? "No tool has kept any files." : `They lie in ${folder}`);
    });
    return;
  }
  if (name === undefined) throw usageError(`Whose data? ${cli.commandLine("data clear NAME")}`);
  if (!kept.some((one) => one.name === name)) {
    throw new CliError(`"${name}" has kept no files. See: ${cli.commandLine("data list")}`, {
      code: "data_not_found",
      details: { name },
    });
  }
  const cleared = await folders.clear(name);
  cli.answer({ data: cleared }, () => cli.talk(`Deleted ${amount(cleared.files, "file")} of ${name}.`));
}
