import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sql } from "kysely";
import { engineOf, openDatabase } from "../../packages/server/src/store/database.ts";
import { REQUEST_MARK } from "../../packages/server/src/store/keys.ts";
import type { StoreDatabase } from "../../packages/server/src/store/schema.ts";
import { openStore, type Store, type StoreOptions } from "../../packages/server/src/store/store.ts";
import { costOf, type Figure, type GrowthPart } from "./part.ts";

const DAY = 24 * 60 * 60_000;
/** What is on record is spread over so many days, to now. */
const DAYS = 30;
const SESSIONS = 1_000;

export const others: GrowthPart = {
  title: "questions, schedules, conversations and requests to /v1 on record",
  sizes: ["1000", "10000", "100000"],
  async measure(size) {
    const directory = await mkdtemp(join(tmpdir(), "toolrack-growth-"));
    try {
      return await measureOthers({ directory }, Number(size));
    } finally {
      await rm(directory, { recursive: true, force: true, maxRetries: 5 });
    }
  },
};

/** Does with so many of each what a console and the server's own housekeeping do. */
export async function measureOthers(options: StoreOptions, size: number): Promise<Figure[]> {
  await fillOthers(options, size);
  const store = await openStore(options);
  const { approvals, chat, schedules, searches, usage } = store;
  const session = `session_${SESSIONS / 2}`;
  const since = Date.now() - DAYS * DAY;
  try {
    const deleting = await costOf("deleting those of two days", deletionsOf(store), {
      times: 3,
      grows: true,
    });
    return [
      ...(await costOf("newest questions", () => approvals.list({}))),
      ...(await costOf("questions of a session", () => approvals.list({ session, limit: 5 }))),
      ...(await costOf("questions that others answered", () => approvals.takeOrphans())),
      ...(await costOf("schedules", () => schedules.list(), { grows: true, goal: 20 })),
      ...(await costOf("conversations", () => chat.listSessions({}))),
      ...(await costOf("what models took", () => usage.statistics({ since }), { grows: true })),
      ...(await costOf("learned searches", () => searches.list({ limit: 100 }))),
      ...(await costOf("hourly upkeep", () => store.prune({ maxAge: (DAYS - 8) * DAY }), { times: 5 })),
      ...deleting,
    ];
  } finally {
    await store.close();
  }
}

/** Each time it is called, it deletes two more days. */
function deletionsOf(store: Store): () => Promise<void> {
  let days = DAYS;
  return () => {
    days -= 2;
    return store.prune({ maxAge: days * DAY });
  };
}

async function fillOthers(options: StoreOptions, size: number): Promise<void> {
  const store = await openStore(options);
  const { approvals, chat, schedules, searches } = store;
  for (let n = 0; n < size; n++) {
    const sessionID = `session_${n % SESSIONS}`;
    const asked = { callId: `call_${n}`, toolName: "tool", displayName: "Tool", sessionID, caller: "http" };
    const input = { text: "What the tool is asked to do." };
    const question = { ...asked, input, message: "May it?", dangerous: true, stage: "before" } as const;
    await approvals.add(`question_${n}`, { ...question, expiresAt: Date.now() + DAY });
    const schedule = { toolName: "tool", arguments: input, caller: "http", missed: "skip" } as const;
    const timing = { kind: "once", at: Date.now() } as const;
    await schedules.add({ ...schedule, id: `schedule_${n}`, timing, nextRunAt: Date.now() });
    const conversation = { id: `chat_${n}`, owner: `owner_${n % 10}`, title: "Talk", model: "", state: {} };
    await chat.addSession(conversation);
    const handoff = { owner: "owner", sessionId: "", messages: [{ at: 0, state: "done" }] };
    await chat.addHandoff({ ...handoff, id: `${REQUEST_MARK}${n}` });
    if (n < 10_000) await searches.add({ query: `words ${n}`, toolName: "tool", owner: "" });
  }
  await store.close();
  const { url, directory } = options;
  const engine = engineOf(url);
  const { db, close } = await openDatabase(engine, url ?? join(directory, "toolrack.db"));
  await spread(db, size);
  await close();
}

/** Ends what is open, and lets it have begun on all days. */
async function spread(db: StoreDatabase, size: number): Promise<void> {
  const start = Date.now() - DAYS * DAY;
  const at = (id: string, words: string) => {
    const number = sql`cast(substr(${sql.ref(id)}, ${sql.lit(words.length + 1)}) as bigint)`;
    return sql<number>`${sql.lit(start)} + cast(${number} * ${sql.lit((DAYS * DAY) / size)} as bigint)`;
  };
  await db
    .updateTable("approvals")
    .set({ state: "allowed", created_at: at("id", "question_") })
    .execute();
  const ended = { state: "finished", next_run_at: null, ended_at: at("id", "schedule_") } as const;
  await db.updateTable("schedules").set(ended).execute();
  await db
    .updateTable("chat_sessions")
    .set({ updated_at: at("id", "chat_") })
    .execute();
  await db
    .updateTable("chat_handoffs")
    .set({ created_at: at("id", REQUEST_MARK) })
    .execute();
  const counters = {
    requests: 1,
    estimated: 0,
    prompt_tokens: 9,
    cached_tokens: 0,
    completion_tokens: 9,
    cost: 0,
  };
  for (let n = 0; n < size; n += 100) {
    const rows = Array.from({ length: 100 }, (_, more) => ({
      ...counters,
      day: new Date(start + ((n + more) * DAYS * DAY) / size).toISOString().slice(0, 10),
      caller: `caller_${more}`,
      model: "model",
      session_id: `chat_${n + more}`,
    }));
    await db.insertInto("chat_usage").values(rows).execute();
  }
}
