import { join } from "node:path";
import type { Kysely } from "kysely";
import { BlobDirectory } from "../../blobs.ts";
import { openDatabase } from "../../database.ts";
import { Instance } from "../../instances.ts";
import { migrate } from "../../migrations/migrate.ts";
import { CallJournals } from "../call-journal.ts";
import { CallRepository } from "../calls.ts";

/** Calls of a SQLite store that stay in the journal until somebody in this process reads them, or flushes. */
export async function openHeldBack(directory: string) {
  const database = await openDatabase("sqlite", join(directory, "toolrack.db"));
  const { db, scan, pending } = database;
  // The tables that the type speaks of are only made by the migrations.
  await migrate(db as unknown as Kysely<unknown>, "sqlite");
  const locks = join(directory, "instances");
  const instance = await Instance.start(db, "sqlite", locks);
  const calls = new CallRepository({
    db,
    scan,
    pending,
    engine: "sqlite",
    blobs: new BlobDirectory(join(directory, "blobs")),
    instance,
    journals: new CallJournals({ db, directory: locks, instance, logger: console }),
    logger: console,
    delay: 600_000,
  });
  const close = async () => {
    await calls.close();
    await instance.stop();
    await database.close();
  };
  return { calls, close };
}
