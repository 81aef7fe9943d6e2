import type { Kysely } from "kysely";
import { REQUEST_MARK } from "./keys.ts";

export type Engine = "sqlite" | "postgres" | "mysql";

/**
 * The columns of all tables, each as its name and type. `key`: a text from outside that is compared exactly, up to 255
 * characters. `code`: an id, hash or word of our own, up to 80 ASCII characters; in brackets all words that it may be.
 * `text`: of any length. `bytes`: any bytes. `whole`: milliseconds since the epoch, or a size. A question mark: the column may be null.
 * After `=`: the default for rows that operators write by hand with a database client.
 */
export const tables = {
  calls: [
    "call_id key primary, parent_call_id key?, replay_of key?, tool_name key, display_name key",
    "session_id key, message_id key, caller key, tid key?, depth integer",
    // The caller of the chain's first call, when it has a token; empty when that is the operator. Null in rows of older
    // versions, which `fillCounts` counts: of those only rows of callers with a token get an owner.
    "owner key?",
    // The first call of the chain. Null in that call itself, and in rows of older versions.
    "root_call_id key?",
    "state code(running|completed|error|interrupted), timestamp whole, duration real?, run_duration real?",
    // The process that runs or ran the call: see the class `Instance`.
    "instance code",
    // Bytes of the row's texts and of its blobs, for retention by size.
    "size whole, result_type code(text|json|error)",
    // Characters of the whole text of the result, also when the row holds a part of it.
    "result_size whole",
    // `result_blob` and `more_blob` name the blobs of the result's whole text and of everything else of the
    // result.
    "result_blob code?, more_blob code?, parameters_hash code",
    // The part of `run_duration` that went into checking, masking and cutting the result; null in older rows.
    "after_duration real?",
    // The long texts come last: SQLite reads a row from its beginning. All but `result_text` are JSON.
    "flags text?, parameters text, error text?, result_text text",
    // `more`: what a result has besides its text. `log`: the tool's log lines.
    "more text?, log text?",
    // The lane whose workers run the call; until it ends, `more` has what the worker needs: see `lane-calls.ts`.
    "lane key?",
  ],
  // How many calls ended, by the length of their time slice, its beginning, tool and duration: see `call-counts.ts`.
  call_counts: [
    "span code(minute|quarter|hour|day|kept|filled), starts_at whole, tool_name key, bucket integer, part integer",
    // `total`: the sum of the durations, in milliseconds.
    "calls whole, errors whole, cancelled whole, total real",
  ],
  // The same for days by tool, whatever the duration: the tools with the most calls are found without all others.
  tool_days: ["starts_at whole, tool_name key, part integer, calls whole, errors whole, cancelled whole"],
  // `info`: what a node tells of itself, as JSON; null for a process that serves nobody, such as a command.
  instances: ["id code primary, heartbeat_at whole, info text?"],
  // What one node tells another. The one that it is for deletes it when it reads it.
  messages: ["id code primary, node code, sent_at whole, body text"],
  // Long texts of nodes that share a database server, cut into parts: see `shared-blobs.ts`.
  blobs: ["name code primary, size whole, used_at whole"],
  blob_parts: ["name code, part integer, data bytes"],
  // Values by which a node knows that it has the same key and token as all others: see `access/encryption.ts`.
  identity: ["name code primary, value text"],
  approvals: [
    "id code primary, call_id key, parent_call_id key?, tool_name key, display_name key, session_id key",
    "caller key, dangerous integer, state code(pending|allowed|denied|expired), created_at whole",
    "expires_at whole, decided_at whole?, decided_by key?, message text, input text, details text?, reason text?",
    // The arguments as the person who agreed changed them.
    "edited_input text?",
    // Null in older rows means `before`.
    "stage code(before|during)?",
    // `instance`: the process that waits for the answer. `resumable`: whether the call can be made anew when
    // that process died.
    "instance key?, resumable integer?",
    // The rule that the answer created; kept also after the rule was removed.
    "rule text?",
    // By what the caller made the call.
    "via key?",
  ],
  approval_rules: [
    // `tool` is a glob over names of tools.
    "id code primary, tool key, decision code(allow|ask|deny)",
    // The rule is only for this session, this caller, these arguments; a null column does not restrict it.
    "session_id key?, caller key?, input text?, created_by key, created_at whole",
    // Whether a rule is only for calls without other arguments; null in older rules means no.
    "exact integer?",
  ],
  tokens: [
    "id code primary, name key, hash key unique, scopes text",
    "created_at whole, last_used_at whole?, expires_at whole?",
  ],
  // The value is encrypted before it comes here.
  secrets: ["name key primary, value text, created_at whole, updated_at whole"],
  settings: ["name key primary, value text, created_at whole, updated_at whole"],
  schedules: [
    "id code primary, tool_name key, caller key, state code(active|finished|cancelled), next_run_at whole?",
    "last_run_at whole?, last_call_id key?, runs whole, missed code(run|skip), created_at whole",
    "timing text, input text, ended_at whole?",
  ],
  registry_version: ["id integer primary, version whole"],
  skills: [
    "id code primary, name key, mark code?, enabled integer=1",
    // `trusted` is 0 for a skill that somebody else wrote: its scripts have no network, its tools no secrets.
    "trusted integer=1, created_at whole=0, updated_at whole=0, source_path text?, description text?",
    // `front_matter`: the front matter of `SKILL.md` without name and description, as JSON.
    // `front_matter_text`: the front matter as its author wrote it.
    "front_matter text?, front_matter_text text?, skill_md text?",
  ],
  skill_tools: [
    // The id is the name that models are given.
    "id code primary, skill_id code, name key, type code(http|script|builtin)?, method code?, enabled integer=1",
    "position integer=0, created_at whole=0, updated_at whole=0, display_name text?, command text?",
    "endpoint text?, description text?, usage text?",
  ],
  // The content is base64.
  skill_files: ["skill_id code, path key, executable integer=0, content text"],
  experts: [
    // `name_key` is the name in lower case: names that differ by case only are the same.
    "id code primary, name key, name_key key?, created_at whole=0, updated_at whole=0",
    // `tools`: patterns of tool names, as JSON.
    "description text?, instructions text?, tools text?",
  ],
  // A skill that is defined in a folder has no row in `skills`, but may have one here.
  expert_skills: ["expert_id code, skill_id code, position integer=0"],
  // `name_key` is the tool's name in lower case.
  tool_switches: ["name_key key primary, tool_name key, enabled integer, switched_by key, switched_at whole"],
  // Who let a session go on that loop detection held.
  loop_releases: ["session_id key, released_by key, released_at whole"],
  mcp_servers: [
    // `enabled` is an operator's choice; when it is null, the server's entry decides.
    "server_key key primary, enabled integer?, created_at whole, updated_at whole",
    // All JSON. `entry`: null for a server that a file names. `verdict`: which protocol era and transport the
    // server uses. `catalogue`: what the server offered when it was last seen.
    "entry text?, verdict text?, catalogue text?",
  ],
  mcp_tools: [
    // `name` is the name that the server gives the tool, of any length.
    "server_key key, tool_key key, approved_at whole?, approved_by key?, name text",
    // All JSON. `approved`: the definition that somebody approved. `pending`: the definition to which the
    // server has changed the tool since. `override`: an operator's name or description for the tool.
    "approved text?, pending text?, override text?",
  ],
  // Which server had which names on the rack, so that no name silently passes to another server.
  mcp_names: ["name_key code, server_key key"],
  chat_sessions: [
    "id code primary, owner key, model key, expert key?, created_at whole, updated_at whole",
    // `turn`: the message that is being answered. `instance`: the process that answers it. Null while no
    // message is answered.
    "turn code?, instance code?, title text, state text",
  ],
  chat_messages: [
    "id code primary, session_id code, position integer, role code(user|assistant)",
    // `stopping`: the message runs, and somebody asked to stop it.
    "status code(running|completed|stopped|interrupted|error|stopping), created_at whole, updated_at whole",
    "body text",
  ],
  // What models were asked on a day of UTC. `session_id`: empty for clients that keep their conversations themselves.
  chat_usage: [
    "day code, caller key, model key, session_id code, requests whole, estimated whole",
    "prompt_tokens whole, cached_tokens whole, completion_tokens whole, cost real",
  ],
  // Searches that were followed by a call of a tool that they had found: see `searches.ts`.
  searches: [
    "id code primary, tool_name key, owner key, uses whole, created_at whole, used_at whole, query text",
  ],
  // One row, or none while nobody has changed anything. `version`: raised when processes must read the searches anew.
  search_learning: ["id integer primary, is_on integer, version whole"],
  chat_handoffs: ["id code primary, owner key, session_id code, created_at whole, messages text"],
} as const;

/** The JSON of an error begins with its name. */
export const wasCancelled = (engine: Engine) => beginsWith(engine, "error", '{"name":"ToolCancelledError"');
/** The JSON of flags begins with the loop, if there is one. */
export const wasInLoop = (engine: Engine) => beginsWith(engine, "flags", '{"loop"');

/**
 * Whether a text begins with these characters, of which a quote is the last. On SQLite without a function, because one in
 * the condition of an index may fail: to undo a statement alone, SQLite then copies every page that several rows of it
 * change, into a file, which was a fifth of writing a call.
 */
function beginsWith(engine: Engine, column: string, start: string): string {
  if (engine !== "sqlite") return `${column} like '${start}%'`;
  return `${column} >= '${start}' and ${column} < '${start.slice(0, -1)}#'`;
}
/**
 * Value of the column `resumable` of `approvals`: the call can be made anew, and another process has stored the answer, but
 * no process has continued the call yet.
 */
export const AGREED_ELSEWHERE = 2;
export const isAgreed = `resumable = ${AGREED_ELSEWHERE}`;
/** Whether a handoff only marks a request that may change something. Other ids of handoffs are hexadecimal. */
export const isMark = `id like '${REQUEST_MARK}%'`;

/**
 * The indexes by name, with table and columns. `unique`: no two rows have the same values there. `only`: the
 * rows that a partial index covers, because indexes are half the cost of writing a call. Queries must repeat
 * this condition, or SQLite does not use the index. `isPartial`: it would be of no use with all rows, as on MySQL.
 */
export const indexes: Readonly<
  Record<
    string,
    { on: string; unique?: true; only?: string | ((engine: Engine) => string); isPartial?: true }
  >
> = {
  messages_by_node: { on: "messages (node, sent_at)" },
  blobs_by_use: { on: "blobs (used_at, name)" },
  blob_parts_key: { on: "blob_parts (name, part)", unique: true },
  calls_by_time: { on: "calls (timestamp, call_id)" },
  calls_by_session: { on: "calls (session_id, timestamp)", only: "session_id <> ''" },
  calls_by_tool: { on: "calls (tool_name, timestamp)" },
  calls_by_state: { on: "calls (state, timestamp)", only: "state <> 'completed'" },
  calls_by_maker: {
    on: "calls (parent_call_id, timestamp, call_id)",
    only: "parent_call_id is not null",
  },
  calls_by_root: { on: "calls (root_call_id, timestamp, call_id)", only: "root_call_id is not null" },
  calls_by_owner: { on: "calls (owner, timestamp)", only: "owner <> ''" },
  calls_by_caller: { on: "calls (caller, timestamp)" },
  calls_cancelled: { on: "calls (timestamp, call_id)", only: wasCancelled, isPartial: true },
  calls_in_loops: { on: "calls (timestamp, call_id)", only: wasInLoop, isPartial: true },
  calls_by_result_blob: { on: "calls (result_blob)", only: "result_blob is not null" },
  calls_by_more_blob: { on: "calls (more_blob)", only: "more_blob is not null" },
  loop_releases_by_session: { on: "loop_releases (session_id, released_at)" },
  call_counts_key: { on: "call_counts (span, starts_at, tool_name, bucket, part)", unique: true },
  tool_days_key: { on: "tool_days (tool_name, starts_at, part)", unique: true },
  tool_days_by_calls: { on: "tool_days (starts_at, calls, tool_name)" },
  approvals_by_state: { on: "approvals (state, created_at, id)" },
  approvals_by_call: { on: "approvals (call_id)" },
  schedules_by_next_run: { on: "schedules (state, next_run_at)" },
  approvals_by_time: { on: "approvals (created_at, id)" },
  approvals_agreed: { on: "approvals (resumable)", only: isAgreed },
  approvals_by_session: { on: "approvals (session_id, created_at, id)", only: "session_id <> ''" },
  schedules_by_end: { on: "schedules (ended_at, id)", only: "ended_at is not null" },
  skills_name: { on: "skills (name)", unique: true },
  skills_mark: { on: "skills (mark)", unique: true },
  skill_tools_name: { on: "skill_tools (skill_id, name)", unique: true },
  skill_tools_by_position: { on: "skill_tools (skill_id, position)" },
  skill_files_key: { on: "skill_files (skill_id, path)", unique: true },
  experts_name: { on: "experts (name_key)", unique: true },
  expert_skills_key: { on: "expert_skills (expert_id, skill_id)", unique: true },
  expert_skills_by_skill: { on: "expert_skills (skill_id)" },
  mcp_tools_key: { on: "mcp_tools (server_key, tool_key)", unique: true },
  mcp_names_key: { on: "mcp_names (name_key, server_key)", unique: true },
  chat_handoffs_by_time: { on: "chat_handoffs (created_at)" },
  chat_handoffs_marks: { on: "chat_handoffs (created_at, id)", only: isMark, isPartial: true },
  chat_sessions_by_owner: { on: "chat_sessions (owner, updated_at, id)" },
  chat_sessions_by_use: { on: "chat_sessions (updated_at, id)" },
  chat_sessions_by_turn: { on: "chat_sessions (turn)", only: "turn is not null" },
  chat_usage_key: { on: "chat_usage (day, caller, model, session_id)", unique: true },
  searches_by_use: { on: "searches (used_at, id)" },
  searches_by_owner: { on: "searches (owner, used_at)" },
  chat_messages_of_session: { on: "chat_messages (session_id, position)" },
};

type Column<Line extends string> = Line extends `${infer First}, ${infer Rest}` ? First | Column<Rest> : Line;
type NameOf<Text extends string> = Text extends `${infer Name} ${string}` ? Name : never;
type TypeOf<Text extends string> = Text extends `${string} ${infer Type} ${string}`
  ? ValueOf<Type>
  : Text extends `${string} ${infer Type}`
    ? ValueOf<Type>
    : never;
type ValueOf<Type extends string> = Type extends `${infer Filled}?`
  ? ValueOf<Filled> | null
  : Type extends `code(${infer Words})`
    ? WordOf<Words>
    : Type extends "key" | "code" | "text"
      ? string
      : Type extends "bytes"
        ? Uint8Array
        : number;
type WordOf<Words extends string> = Words extends `${infer First}|${infer Rest}`
  ? First | WordOf<Rest>
  : Words;

type RowOf<Lines extends readonly string[]> = {
  // Each column has the name that stands before its type.
  [Text in Column<Lines[number]> as NameOf<Text>]: TypeOf<Text>;
};

/** The rows as queries see them. */
export type Tables = { [Name in keyof typeof tables]: RowOf<(typeof tables)[Name]> };
export type StoreDatabase = Kysely<Tables>;
export type CallRow = Tables["calls"];
export type ApprovalRow = Tables["approvals"];
export type SkillRow = Tables["skills"];
export type SkillToolRow = Tables["skill_tools"];
export type ChatSessionRow = Tables["chat_sessions"];
export type ChatMessageRow = Tables["chat_messages"];
