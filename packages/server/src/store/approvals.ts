import type { ApprovalDecision, ApprovalRequest } from "@toolrack/core";
import { type SqlBool, sql } from "kysely";
import type { Instance } from "./instances.ts";
import { problemOfRulePattern, toKey, toLabel } from "./keys.ts";
import {
  changesRows,
  deleteInSteps,
  deleteRows,
  findRow,
  findRows,
  flag,
  json,
  type Page,
  plain,
  readPage,
  rowMap,
  updateRows,
} from "./row-mapping.ts";
import { AGREED_ELSEWHERE, type ApprovalRow, isAgreed, type StoreDatabase } from "./schema.ts";

/** A question that was put to a person, and the answer. */
export interface StoredApproval extends ApprovalRequest {
  readonly id: string;
  readonly state: "pending" | "allowed" | "denied" | "expired";
  readonly createdAt: number;
  /** By what the caller made the call, such as an MCP client. */
  readonly via?: string;
  readonly decidedAt?: number;
  readonly decidedBy?: string;
  readonly reason?: string;
  /** The arguments as the person who agreed changed them. */
  readonly arguments?: Readonly<Record<string, unknown>>;
  /** The later calls for which the answer counts too. */
  readonly rule?: AnsweredFor;
}

export type AnsweredFor = Pick<ApprovalRule, "tool" | "input" | "exact" | "sessionID">;

/** A standing answer for later calls. */
export interface ApprovalRule {
  readonly id: string;
  /** A pattern of tool names, as in the scopes of tokens. */
  readonly tool: string;
  readonly decision: "allow" | "ask" | "deny";
  /** Only for calls with these arguments. */
  readonly input?: Readonly<Record<string, unknown>>;
  /** With `input`: only for calls that have no other arguments. */
  readonly exact?: boolean;
  /** Only for calls of this session. */
  readonly sessionID?: string;
  /** Only for calls of this caller. */
  readonly caller?: string;
  readonly createdBy: string;
  readonly createdAt: number;
}

export interface ApprovalQuery {
  readonly state?: StoredApproval["state"];
  readonly session?: string;
  /** How many questions a page has: at most 500, default 50. The newest questions come first. */
  readonly limit?: number;
  readonly cursor?: string;
}

/** Value of the column `resumable`: the call can be made anew when its process has died. */
const RESUMABLE = 1;
/**
 * Milliseconds before the expiry in which another node's answer is refused: the call's process might not find it in
 * time.
 */
const TIME_TO_FIND_ANSWER = 5_000;

const approvals = rowMap<StoredApproval>()(
  "approvals",
  {
    input: json(),
    details: json(),
    dangerous: flag(),
    // Rows from before this column existed are all `before`.
    stage: {
      ...plain<StoredApproval["stage"]>(),
      read: (stage) => (stage === "during" ? stage : "before"),
      hasDefault: true,
    },
    arguments: json("edited_input"),
    rule: json(),
  },
  ["instance", "resumable"],
);

// `exact` is null when the rule does not say, so that older and newer rules read the same.
const rules = rowMap<ApprovalRule>()("approval_rules", { input: json(), exact: flag() });

export class ApprovalRepository {
  readonly #db: StoreDatabase;
  readonly #instance: Instance;

  constructor(db: StoreDatabase, instance: Instance) {
    this.#db = db;
    this.#instance = instance;
  }

  /**
   * Resolves when the question is safely written. `isResumable`: the call can be made anew if its process ends before
   * anybody answered, so the question stays open then.
   */
  async add(
    id: string,
    request: ApprovalRequest & Pick<StoredApproval, "via">,
    isResumable = false,
  ): Promise<StoredApproval> {
    const row: ApprovalRow = {
      ...approvals.toRow({ ...request, id, state: "pending", createdAt: Date.now() }),
      via: request.via === undefined ? null : toLabel(request.via),
      instance: this.#instance.id,
      resumable: isResumable ? RESUMABLE : 0,
    };
    await this.#db.insertInto("approvals").values(row).execute();
    return approvals.toRecord(row);
  }

  async get(id: string): Promise<StoredApproval | undefined> {
    const row = await findRow(this.#db, "approvals", { id: asId(id) });
    return row && approvals.toRecord(row);
  }

  /** The latest question whether a call may run. */
  async ofCall(callId: string): Promise<StoredApproval | undefined> {
    const rows = await findRows(this.#db, "approvals", { call_id: toKey(callId) }, "created_at", "id");
    const row = rows.findLast(({ stage }) => stage !== "during");
    return row && approvals.toRecord(row);
  }

  /** Makes an open question of a dead process one of this process. False when it is no longer open. */
  async adopt(id: string, expiresAt: number): Promise<boolean> {
    const changes = { instance: this.#instance.id, expires_at: Math.round(expiresAt), resumable: RESUMABLE };
    return (await updateRows(this.#db, "approvals", { id: asId(id), state: "pending" }, changes)) > 0;
  }

  /** Throws `InvalidCursorError`. */
  async list({ state, session, limit, cursor }: ApprovalQuery): Promise<Page<StoredApproval>> {
    let selection = this.#db.selectFrom("approvals").selectAll();
    if (state !== undefined) selection = selection.where("state", "=", state);
    if (session !== undefined) selection = selection.where("session_id", "=", toKey(session));
    // SQLite uses the partial index only when the query repeats its condition.
    if (session) selection = selection.where(sql<SqlBool>`session_id <> ''`);
    return readPage(selection, {
      limit,
      cursor,
      time: "created_at",
      id: "id",
      isId: (id) => asId(id) === id,
      toItem: approvals.toRecord,
      placeOf: ({ createdAt, id }) => ({ time: createdAt, id }),
    });
  }

  /** Whether the question waits for an answer, but the process whose call asked it no longer lives. */
  async isOrphan(id: string): Promise<boolean> {
    const row = await findRow(this.#db, "approvals", { id: asId(id), state: "pending" });
    return row !== undefined && (await this.#instance.findDead([row.instance ?? ""])).length > 0;
  }

  /**
   * Denies open questions of dead processes whose call cannot be made anew: an answer could change nothing. Returns how
   * many.
   */
  async closeOrphans(reason: string, decidedBy: string): Promise<number> {
    const owners = await findRows(this.#db, "approvals", { state: "pending" });
    const dead = await this.#instance.findDead(owners.map(({ instance }) => instance ?? ""));
    if (dead.length === 0) return 0;
    const { numUpdatedRows } = await this.#db
      .updateTable("approvals")
      .set({ state: "denied", decided_at: Date.now(), decided_by: toKey(decidedBy), reason })
      .where("state", "=", "pending")
      .where(({ or, eb }) => or([eb("resumable", "=", 0), eb("resumable", "is", null)]))
      .where(({ fn, val }) => fn.coalesce("instance", val("")), "in", dead)
      .executeTakeFirst();
    return Number(numUpdatedRows);
  }

  /**
   * The first answer counts, from any person and any node. `isAccepted` is false for a second answer and after the
   * question expired. Undefined when there is no such question.
   */
  async decide(
    id: string,
    decision: ApprovalDecision,
    decidedBy: string,
    rule?: AnsweredFor,
  ): Promise<{ readonly isAccepted: boolean; readonly approval: StoredApproval } | undefined> {
    const change = this.#buildDecision(id, decision, decidedBy, rule).where("expires_at", ">", Date.now());
    return this.#reportDecision(id, await changesRows(change));
  }

  /**
   * Like `decide`, for a question whose call waits in another process, which finds the answer and takes it.
   * The answer is not accepted, though the question is still pending, when the question is about to expire or
   * belongs to this process.
   */
  async decideElsewhere(...[id, decision, decidedBy, rule]: Parameters<ApprovalRepository["decide"]>) {
    const change = this.#buildDecision(id, decision, decidedBy, rule)
      .set({
        resumable: sql<number>`case when resumable = ${sql.lit(RESUMABLE)} then ${sql.lit(AGREED_ELSEWHERE)} else resumable end`,
      })
      .where("expires_at", ">", Date.now() + TIME_TO_FIND_ANSWER)
      .where("instance", "!=", this.#instance.id);
    return this.#reportDecision(id, await changesRows(change));
  }

  /** Returns those of the given questions that are no longer pending. */
  async findDecided(ids: readonly string[]): Promise<StoredApproval[]> {
    const rows = await findRows(this.#db, "approvals", { id: ids, state: ["allowed", "denied", "expired"] });
    return rows.map(approvals.toRecord);
  }

  /**
   * Claims a call that can be made anew and whose question was answered with `decideElsewhere`. True for
   * exactly one process, which makes the call.
   */
  async take(id: string): Promise<boolean> {
    const agreed = { id: asId(id), resumable: AGREED_ELSEWHERE };
    return (await updateRows(this.#db, "approvals", agreed, { resumable: 0 })) > 0;
  }

  /**
   * Claims, like `take`, every allowed call whose own process died before it could claim it. Returns their
   * questions.
   */
  async takeOrphans(): Promise<StoredApproval[]> {
    // A child call is made by its parent, when the parent is made again.
    const agreed = this.#db
      .selectFrom("approvals")
      .selectAll()
      .where(sql<SqlBool>`${sql.raw(isAgreed)}`);
    // Nobody expects a call that was agreed to days ago.
    const rows = await agreed
      .where("state", "=", "allowed")
      .where("parent_call_id", "is", null)
      .where("expires_at", ">", Date.now())
      .execute();
    if (rows.length === 0) return [];
    const dead = new Set(await this.#instance.findDead(rows.map(({ instance }) => instance ?? "")));
    const taken: StoredApproval[] = [];
    for (const row of rows.filter(({ instance }) => dead.has(instance ?? ""))) {
      if (await this.take(row.id)) taken.push(approvals.toRecord(row));
    }
    return taken;
  }

  /** Marks questions that nobody answered in time as expired. Returns how many. */
  async expire(now: number): Promise<number> {
    const { numUpdatedRows } = await this.#db
      .updateTable("approvals")
      .set({ state: "expired", decided_at: now })
      .where("state", "=", "pending")
      .where("expires_at", "<=", now)
      .executeTakeFirst();
    return Number(numUpdatedRows);
  }

  /** Rejects a pattern that the store could not keep unchanged. */
  async addRule(rule: ApprovalRule): Promise<void> {
    const problem = problemOfRulePattern(rule.tool);
    if (problem !== undefined) throw new Error(problem);
    await this.#db.insertInto("approval_rules").values(rules.toRow(rule)).execute();
  }

  /** The oldest first. */
  async listRules(): Promise<ApprovalRule[]> {
    return (await findRows(this.#db, "approval_rules", {}, "created_at", "id")).map(rules.toRecord);
  }

  async removeRule(id: string): Promise<boolean> {
    return (await deleteRows(this.#db, "approval_rules", { id: asId(id) })) > 0;
  }

  /** Deletes answered questions, and rules of sessions, that are older than the given time. */
  async prune(oldest: number): Promise<void> {
    const isOld = sql`created_at < ${Math.floor(oldest)}`;
    await deleteInSteps(this.#db, sql`approval_rules where session_id is not null and ${isOld}`);
    await deleteInSteps(this.#db, sql`approvals where state <> 'pending' and ${isOld}`);
  }

  #buildDecision(id: string, decision: ApprovalDecision, decidedBy: string, rule: AnsweredFor | undefined) {
    const isAllowed = decision.decision === "allow";
    const changes = approvals.toChanges({
      state: isAllowed ? "allowed" : "denied",
      decidedAt: Date.now(),
      decidedBy,
      reason: decision.reason ?? null,
      arguments: (isAllowed ? decision.arguments : undefined) ?? null,
      rule: rule ?? null,
    });
    return this.#db
      .updateTable("approvals")
      .set(changes)
      .where("id", "=", asId(id))
      .where("state", "=", "pending");
  }

  async #reportDecision(id: string, isAccepted: boolean) {
    if (!isAccepted) await this.expire(Date.now());
    const approval = await this.get(id);
    return approval && { isAccepted, approval };
  }
}

export type ApprovalStore = Omit<ApprovalRepository, "prune">;

/** Ids are made of plain letters. Any other text is not an id, and some engines refuse even to compare it with one. */
function asId(id: string): string {
  return /^[\w-]*$/.test(id) ? id : "";
}
