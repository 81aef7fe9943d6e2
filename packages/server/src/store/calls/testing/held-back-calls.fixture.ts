import { join } from "node:path";
import { BlobFolder, Blobs } from "../../blobs.ts";
import { openDatabase } from "../../database.ts";
import { Instance } from "../../instances.ts";
import { migrate } from "../../migrations.ts";
import { CallJournals } from "../call-journal.ts";
import { CallRepository } from "../calls.ts";

/** Calls of a SQLite store that stay in the journal until somebody in this process reads them, or flushes. */
export async function openHeldBack(directory: string) {
  const database = await openDatabase("sqlite", join(directory, "toolrack.db"));
  const { db } = database;
  await migrate(db, "sqlite");
  const locks = join(directory, "instances");
  const instance = await Instance.start(db, "sqlite", locks);
  const calls = new CallRepository(database, {
    blobs: new Blobs(new BlobFolder(join(directory, "blobs"))),
    instance,
    journals: new CallJournals(database, locks, instance, console),
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
