import { type CreateTableBuilder, type Kysely, type RawBuilder, sql } from "kysely";
import type { ChatTables } from "./chat-tables.ts";
import type { Engine } from "./database.ts";
import type { McpServerTables } from "./mcp-servers.ts";
import type { SkillTables } from "./skill-tables.ts";

/** The tables as queries see them. The columns are explained where the migrations make them. */
export interface Tables extends SkillTables, McpServerTables, ChatTables {
  calls: CallRow;
  instances: { id: string; heartbeat_at: number };
  tokens: TokenRow;
  approvals: ApprovalRow;
  approval_rules: ApprovalRuleRow;
  secrets: { name: string; value: string; created_at: number; updated_at: number };
  schedules: ScheduleRow;
  tool_switches: ToolSwitchRow;
  registry_version: { id: number; version: number };
}

export type StoreDatabase = Kysely<Tables>;

export interface CallRow {
  call_id: string;
  parent_call_id: string | null;
  replay_of: string | null;
  tool_name: string;
  display_name: string;
  session_id: string;
  message_id: string;
  caller: string;
  tid: string | null;
  depth: number;
  state: "running" | "completed" | "error" | "interrupted";
  timestamp: number;
  duration: number | null;
  run_duration: number | null;
  instance: string;
  size: number;
  result_type: "text" | "json" | "error";
  result_size: number;
  result_blob: string | null;
  more_blob: string | null;
  parameters_hash: string;
  flags: string | null;
  parameters: string;
  error: string | null;
  result_text: string;
  more: string | null;
  log: string | null;
  after_duration: number | null;
}

export interface TokenRow {
  id: string;
  name: string;
  hash: string;
  scopes: string;
  created_at: number;
  last_used_at: number | null;
  expires_at: number | null;
}

export interface ApprovalRow {
  id: string;
  call_id: string;
  parent_call_id: string | null;
  tool_name: string;
  display_name: string;
  session_id: string;
  caller: string;
  dangerous: number;
  state: "pending" | "allowed" | "denied" | "expired";
  created_at: number;
  expires_at: number;
  decided_at: number | null;
  decided_by: string | null;
  message: string;
  input: string;
  details: string | null;
  reason: string | null;
  edited_input: string | null;
  stage: "before" | "during" | null;
  instance: string | null;
  resumable: number | null;
  rule: string | null;
}

export interface ApprovalRuleRow {
  id: string;
  tool: string;
  decision: "allow" | "ask" | "deny";
  session_id: string | null;
  created_by: string;
  created_at: number;
  input: string | null;
  caller: string | null;
  exact: number | null;
}

export interface ScheduleRow {
  id: string;
  tool_name: string;
  caller: string;
  state: "active" | "finished" | "cancelled";
  next_run_at: number | null;
  last_run_at: number | null;
  last_call_id: string | null;
  runs: number;
  missed: "run" | "skip";
  created_at: number;
  timing: string;
  input: string;
  ended_at: number | null;
}

export interface ToolSwitchRow {
  name_key: string;
  tool_name: string;
  enabled: number;
  switched_by: string;
  switched_at: number;
}

interface ColumnTypes {
  /** A text that somebody else chose and that is compared exactly, up to 255 characters. */
  readonly key: RawBuilder<unknown>;
  /** An id, hash or word of our own, up to 80 ASCII characters. */
  readonly code: RawBuilder<unknown>;
  /** Text of any length. */
  readonly text: RawBuilder<unknown>;
  /** Milliseconds since the epoch, or a size. */
  readonly whole: RawBuilder<unknown>;
  readonly real: RawBuilder<unknown>;
}

/** One meaning for the three engines: exact comparison, every character of Unicode, no small limits. */
export function columnTypes(engine: Engine): ColumnTypes {
  const numbers = { whole: sql`bigint`, real: sql`double precision` };
  switch (engine) {
    case "sqlite":
      return { ...numbers, key: sql`varchar(255)`, code: sql`varchar(80)`, text: sql`text` };
    case "postgres":
      // Without the collation, order and speed would depend on the locale the database was made with.
      return {
        ...numbers,
        key: sql`varchar(255) collate "C"`,
        code: sql`varchar(80) collate "C"`,
        text: sql`text`,
      };
    case "mysql":
      // `text` would end at 64 KiB there.
      return {
        ...numbers,
        key: sql`varchar(255)`,
        code: sql`varchar(80) character set ascii collate ascii_bin`,
        text: sql`longtext`,
      };
  }
}

/** MySQL's own defaults may be latin1, and compare without regard to case. */
export function withTableOptions<Table extends string, Column extends string>(
  table: CreateTableBuilder<Table, Column>,
  engine: Engine,
): CreateTableBuilder<Table, Column> {
  if (engine !== "mysql") return table;
  return table.modifyEnd(sql`engine=InnoDB default character set utf8mb4 collate utf8mb4_bin`);
}
