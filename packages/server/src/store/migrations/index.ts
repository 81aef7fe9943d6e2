import type { Kysely } from "kysely";
import type { Engine } from "../database.ts";
import { createFirstTables } from "./0001-first-tables.ts";
import { createSkillTables } from "./0002-skills.ts";
import { createSwitches } from "./0003-switches.ts";
import { createMcpServerTables } from "./0004-mcp-servers.ts";
import { addLiveQuestions } from "./0005-live-questions.ts";
import { makeIndexesLeaner } from "./0006-leaner-indexes.ts";
import { createChatTables } from "./0007-chat.ts";
import { allowRowsByHand } from "./0008-rows-by-hand.ts";
import { addAnswers } from "./0009-answers.ts";
import { addCallLog } from "./0010-call-log.ts";
import { createMcpNames } from "./0011-mcp-names.ts";

/**
 * A step is run once for a database, in the order of the names, and never changed after a release. MySQL cannot undo a
 * step that failed half-way, so each one can be run again over its own beginnings.
 */
export type MigrationStep = (db: Kysely<unknown>, engine: Engine) => Promise<void>;

export const migrationSteps: Readonly<Record<string, MigrationStep>> = {
  "0001_first_tables": createFirstTables,
  "0002_skills": createSkillTables,
  "0003_switches": createSwitches,
  "0004_mcp_servers": createMcpServerTables,
  "0005_live_questions": addLiveQuestions,
  "0006_leaner_indexes": makeIndexesLeaner,
  "0007_chat": createChatTables,
  "0008_rows_by_hand": allowRowsByHand,
  "0009_answers": addAnswers,
  "0010_call_log": addCallLog,
  "0011_mcp_names": createMcpNames,
};
