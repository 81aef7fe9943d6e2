import type { Kysely } from "kysely";
import type { Engine } from "../database/engine.ts";
import { createFirstTables } from "./0001-first-tables.ts";

/**
 * A step is run once for a database, in the order of the names, and never changed after a release. MySQL cannot undo a
 * step that failed half-way, so each one can be run again over its own beginnings.
 */
export type MigrationStep = (db: Kysely<unknown>, engine: Engine) => Promise<void>;

export const migrationSteps: Readonly<Record<string, MigrationStep>> = {
  "0001_first_tables": createFirstTables,
};
