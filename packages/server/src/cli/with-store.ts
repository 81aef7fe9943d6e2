import { join } from "node:path";
import type { Logger } from "@toolrack/core";
import type { Store } from "../store/store.ts";
import type { Cli } from "./cli.ts";
import { findWorkspace } from "./find-workspace.ts";

/** Opens the store of the workspace without its tools, uses it, and closes it whatever happens. */
export async function withStore<Result>(
  cli: Cli,
  use: (store: Store, directory: string) => Promise<Result>,
): Promise<Result> {
  const workspace = findWorkspace(cli.directory);
  const directory = join(workspace, ".toolrack");
  // As the server does it: the file may say which database it is.
  const { loadEnvironment } = await import("../config/read-config.ts");
  const logger: Logger = {
    debug() {},
    info() {},
    warn: (text) => cli.talk(String(text)),
    error: (text) => cli.talk(String(text)),
  };
  const forget = await loadEnvironment(workspace, logger);
  // Imported late, so that help and usage errors do not wait for the database.
  const { openStore } = await import("../store/store.ts");
  const store = await openStore({ directory, logger, url: process.env.DATABASE_URL ?? "" });
  try {
    return await use(store, directory);
  } finally {
    await store.close();
    forget();
  }
}
