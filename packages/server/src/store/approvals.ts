import type { ApprovalDecision, ApprovalRequest } from "@toolrack/core";
import { sql } from "kysely";
import { InvalidCursorError } from "./errors.ts";
import { problemOfRulePattern, toKey, toStorableText } from "./forms.ts";
import type { Instance } from "./instances.ts";
import type { ApprovalRow, ApprovalRuleRow, StoreDatabase } from "./schema.ts";
import type { Page } from "./store.ts";
import { formatCursor, fromJson, pageLimit, parseCursor, toJson } from "./values.ts";

/** A question that was put to a person, and the answer. */
export interface StoredApproval extends ApprovalRequest {
  readonly id: string;
  readonly state: "pending" | "allowed" | "denied" | "expired";
  readonly createdAt: number;
  readonly decidedAt?: number;
  readonly decidedBy?: string;
  readonly reason?: string;
  /** The arguments as the person who agreed changed them. */
  readonly arguments?: Readonly<Record<string, unknown>>;
  /** For which calls to come the answer counts as well. */
  readonly rule?: AnsweredFor;
}

export type AnsweredFor = Pick<ApprovalRule, "tool" | "input" | "exact" | "sessionID">;

/** An answer for calls to come. */
export interface ApprovalRule {
  readonly id: string;
  /** A pattern of tools, as the scopes of tokens have them. */
  readonly tool: string;
  readonly decision: "allow" | "ask" | "deny";
  /** Only for calls with these arguments. */
  readonly input?: Readonly<Record<string, unknown>>;
  /** With `input`: only for calls that have no other arguments beside these. */
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
  /** Only those of calls in this session. */
  readonly session?: string;
  /** At most 500; default 50. Newest first. */
  readonly limit?: number;
  readonly cursor?: string;
}

export interface ApprovalStore {
  /**
   * Resolves when the question is safely written. `isResumable`: the call can be made anew if its process ends before
   * anybody answered, so the question stays open then.
   */
  add(id: string, request: ApprovalRequest, isResumable?: boolean): Promise<StoredApproval>;
  get(id: string): Promise<StoredApproval | undefined>;
  /** Throws `InvalidCursorError`. */
  list(query: ApprovalQuery): Promise<Page<StoredApproval>>;
  /**
   * The first answer counts, whoever gives it and on whichever node; `isAccepted` is false for any later one, and for
   * one that comes too late. Undefined when there is no such question.
   */
  decide(
    id: string,
    decision: ApprovalDecision,
    decidedBy: string,
    rule?: AnsweredFor,
  ): Promise<{ readonly isAccepted: boolean; readonly approval: StoredApproval } | undefined>;
  /**
   * As `decide`, for a question whose call waits in another process: that process finds the answer and takes it. Not
   * accepted, though still pending, is one about to expire, which could not be found in time, and one of this process.
   */
  decideElsewhere: ApprovalStore["decide"];
  /** Those of the given questions that no longer wait, whoever decided them. */
  findDecided(ids: readonly string[]): Promise<StoredApproval[]>;
  /**
   * Takes what `decideElsewhere` agreed to for a call that can be made anew: true for the one process that may go on with
   * the call.
   */
  take(id: string): Promise<boolean>;
  /** Takes what was agreed to with `decideElsewhere` when the process that should have taken it no longer lives. */
  takeOrphans(): Promise<StoredApproval[]>;
  /** Whether the question waits for an answer, but the process whose call asked it no longer lives. */
  isOrphan(id: string): Promise<boolean>;
  /** Denies the orphans whose call cannot be made anew: an answer could change nothing any more. Answers how many. */
  closeOrphans(reason: string, decidedBy: string): Promise<number>;
  /** Ends the questions that nobody answered in time. Answers how many. */
  expire(now: number): Promise<number>;
  /** Rejects for a pattern that could not be read back as it was given. */
  addRule(rule: ApprovalRule): Promise<void>;
  /** The oldest first. */
  listRules(): Promise<ApprovalRule[]>;
  removeRule(id: string): Promise<boolean>;
}

/** In `resumable`: the call can be made anew; and it was agreed to on another node, but nobody went on with it yet. */
const RESUMABLE = 1;
export const TO_TAKE = 2;
/** The least time that the process of a call is left to find an answer, in milliseconds. */
const TIME_TO_TAKE = 5_000;

export class ApprovalRepository implements ApprovalStore {
  readonly #db: StoreDatabase;
  readonly #instance: Instance;

  constructor(db: StoreDatabase, instance: Instance) {
    this.#db = db;
    this.#instance = instance;
  }

  async add(id: string, request: ApprovalRequest, isResumable = false): Promise<StoredApproval> {
    const row = {
      ...toRow(id, request),
      instance: this.#instance.id,
      resumable: isResumable ? RESUMABLE : 0,
    };
    await this.#db.insertInto("approvals").values(row).execute();
    return toApproval(row);
  }

  async get(id: string): Promise<StoredApproval | undefined> {
    const row = await this.#db
      .selectFrom("approvals")
      .selectAll()
      .where("id", "=", asId(id))
      .executeTakeFirst();
    return row === undefined ? undefined : toApproval(row);
  }

  async list({ state, session, limit, cursor }: ApprovalQuery): Promise<Page<StoredApproval>> {
    const count = pageLimit(limit);
    let selection = this.#db.selectFrom("approvals").selectAll();
    if (state !== undefined) selection = selection.where("state", "=", state);
    if (session !== undefined) selection = selection.where("session_id", "=", toKey(session));
    if (cursor !== undefined) {
      const after = parseCursor(cursor);
      if (asId(after.id) !== after.id) throw new InvalidCursorError();
      selection = selection
        .where("created_at", "<=", after.time)
        .where(({ or, eb }) => or([eb("created_at", "<", after.time), eb("id", "<", after.id)]));
    }
    const rows = await selection
      .orderBy("created_at", "desc")
      .orderBy("id", "desc")
      .limit(count + 1)
      .execute();
    const items = rows.slice(0, count).map(toApproval);
    const last = items.at(-1);
    if (rows.length <= count || last === undefined) return { items };
    return { items, next: formatCursor({ time: last.createdAt, id: last.id }) };
  }

  async isOrphan(id: string): Promise<boolean> {
    const row = await this.#db
      .selectFrom("approvals")
      .select("instance")
      .where("id", "=", asId(id))
      .where("state", "=", "pending")
      .executeTakeFirst();
    return row !== undefined && (await this.#instance.findDead([row.instance ?? ""])).length > 0;
  }

  async closeOrphans(reason: string, decidedBy: string): Promise<number> {
    const owners = await this.#db
      .selectFrom("approvals")
      .select("instance")
      .distinct()
      .where("state", "=", "pending")
      .execute();
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

  async decide(id: string, decision: ApprovalDecision, decidedBy: string, rule?: AnsweredFor) {
    const update = this.#deciding(id, decision, decidedBy, rule).where("expires_at", ">", Date.now());
    return this.#decided(id, (await update.executeTakeFirst()).numUpdatedRows);
  }

  async decideElsewhere(id: string, decision: ApprovalDecision, decidedBy: string, rule?: AnsweredFor) {
    const update = this.#deciding(id, decision, decidedBy, rule)
      .set({
        resumable: sql<number>`case when resumable = ${sql.lit(RESUMABLE)} then ${sql.lit(TO_TAKE)} else resumable end`,
      })
      .where("expires_at", ">", Date.now() + TIME_TO_TAKE)
      .where("instance", "!=", this.#instance.id);
    return this.#decided(id, (await update.executeTakeFirst()).numUpdatedRows);
  }

  async findDecided(ids: readonly string[]): Promise<StoredApproval[]> {
    if (ids.length === 0) return [];
    const rows = await this.#db
      .selectFrom("approvals")
      .selectAll()
      .where("id", "in", ids)
      .where("state", "!=", "pending")
      .execute();
    return rows.map(toApproval);
  }

  async take(id: string): Promise<boolean> {
    const { numUpdatedRows } = await this.#db
      .updateTable("approvals")
      .set({ resumable: 0 })
      .where("id", "=", asId(id))
      .where("resumable", "=", TO_TAKE)
      .executeTakeFirst();
    return numUpdatedRows > 0n;
  }

  async takeOrphans(): Promise<StoredApproval[]> {
    const rows = await this.#db
      .selectFrom("approvals")
      .selectAll()
      .where("state", "=", "allowed")
      .where("resumable", "=", TO_TAKE)
      // What a call makes is made by that call, when it is made again.
      .where("parent_call_id", "is", null)
      // Nobody expects a call that was agreed to days ago.
      .where("expires_at", ">", Date.now())
      .execute();
    if (rows.length === 0) return [];
    const dead = new Set(await this.#instance.findDead(rows.map(({ instance }) => instance ?? "")));
    const taken: StoredApproval[] = [];
    for (const row of rows.filter(({ instance }) => dead.has(instance ?? ""))) {
      if (await this.take(row.id)) taken.push(toApproval(row));
    }
    return taken;
  }

  #deciding(id: string, decision: ApprovalDecision, decidedBy: string, rule: AnsweredFor | undefined) {
    const edited = decision.decision === "allow" ? decision.arguments : undefined;
    return this.#db
      .updateTable("approvals")
      .set({
        state: decision.decision === "allow" ? "allowed" : "denied",
        decided_at: Date.now(),
        decided_by: toKey(decidedBy),
        reason: decision.reason === undefined ? null : toStorableText(decision.reason),
        edited_input: edited === undefined ? null : toJson(edited),
        rule: rule === undefined ? null : toJson(rule),
      })
      .where("id", "=", asId(id))
      .where("state", "=", "pending");
  }

  async #decided(id: string, updated: bigint) {
    const isAccepted = updated > 0n;
    if (!isAccepted) await this.expire(Date.now());
    const approval = await this.get(id);
    return approval === undefined ? undefined : { isAccepted, approval };
  }

  async expire(now: number): Promise<number> {
    const { numUpdatedRows } = await this.#db
      .updateTable("approvals")
      .set({ state: "expired", decided_at: now })
      .where("state", "=", "pending")
      .where("expires_at", "<=", now)
      .executeTakeFirst();
    return Number(numUpdatedRows);
  }

  async addRule(rule: ApprovalRule): Promise<void> {
    const problem = problemOfRulePattern(rule.tool);
    if (problem !== undefined) throw new Error(problem);
    await this.#db
      .insertInto("approval_rules")
      .values({
        id: rule.id,
        tool: rule.tool,
        decision: rule.decision,
        session_id: rule.sessionID === undefined ? null : toKey(rule.sessionID),
        created_by: toKey(rule.createdBy),
        created_at: rule.createdAt,
        input: rule.input === undefined ? null : toJson(rule.input),
        caller: rule.caller === undefined ? null : toKey(rule.caller),
        exact: rule.exact === true ? 1 : null,
      })
      .execute();
  }

  async listRules(): Promise<ApprovalRule[]> {
    const rows = await this.#db
      .selectFrom("approval_rules")
      .selectAll()
      .orderBy("created_at")
      .orderBy("id")
      .execute();
    return rows.map(toRule);
  }

  async removeRule(id: string): Promise<boolean> {
    const { numDeletedRows } = await this.#db
      .deleteFrom("approval_rules")
      .where("id", "=", asId(id))
      .executeTakeFirst();
    return numDeletedRows > 0n;
  }

  /** Deletes answered questions, and rules of sessions, that are older than the given time. */
  async prune(oldest: number): Promise<void> {
    await this.#db
      .deleteFrom("approval_rules")
      .where("session_id", "is not", null)
      .where("created_at", "<", Math.floor(oldest))
      .execute();
    await this.#db
      .deleteFrom("approvals")
      .where("state", "!=", "pending")
      .where("created_at", "<", Math.floor(oldest))
      .execute();
  }
}

/** Ids are made here, of plain letters. Anything else is none, and some engines do not even compare it with one. */
function asId(id: string): string {
  return /^[\w-]*$/.test(id) ? id : "";
}

function toRow(id: string, request: ApprovalRequest): Omit<ApprovalRow, "instance" | "resumable"> {
  return {
    id,
    call_id: toKey(request.callId),
    parent_call_id: request.parentCallId === undefined ? null : toKey(request.parentCallId),
    tool_name: toKey(request.toolName),
    display_name: toKey(request.displayName),
    session_id: toKey(request.sessionID),
    caller: toKey(request.caller),
    dangerous: request.dangerous ? 1 : 0,
    state: "pending",
    created_at: Date.now(),
    expires_at: Math.round(request.expiresAt),
    decided_at: null,
    decided_by: null,
    message: toStorableText(request.message),
    input: toJson(request.input),
    details: request.details === undefined ? null : toJson(request.details),
    reason: null,
    edited_input: null,
    rule: null,
    stage: request.stage,
  };
}

function toApproval(row: ApprovalRow): StoredApproval {
  const details = fromJson<NonNullable<StoredApproval["details"]>>(row.details);
  const edited = fromJson<NonNullable<StoredApproval["arguments"]>>(row.edited_input);
  const rule = fromJson<AnsweredFor>(row.rule);
  return {
    id: row.id,
    callId: row.call_id,
    ...(row.parent_call_id === null ? {} : { parentCallId: row.parent_call_id }),
    toolName: row.tool_name,
    displayName: row.display_name,
    input: fromJson<StoredApproval["input"]>(row.input) ?? {},
    message: row.message,
    ...(details === undefined ? {} : { details }),
    dangerous: row.dangerous === 1,
    stage: row.stage ?? "before",
    sessionID: row.session_id,
    caller: row.caller,
    state: row.state,
    createdAt: row.created_at,
    expiresAt: row.expires_at,
    ...(row.decided_at === null ? {} : { decidedAt: row.decided_at }),
    ...(row.decided_by === null ? {} : { decidedBy: row.decided_by }),
    ...(row.reason === null ? {} : { reason: row.reason }),
    ...(edited === undefined ? {} : { arguments: edited }),
    ...(rule === undefined ? {} : { rule }),
  };
}

function toRule(row: ApprovalRuleRow): ApprovalRule {
  const input = fromJson<NonNullable<ApprovalRule["input"]>>(row.input);
  return {
    id: row.id,
    tool: row.tool,
    decision: row.decision,
    ...(input === undefined ? {} : { input }),
    ...(row.exact === 1 ? { exact: true } : {}),
    ...(row.session_id === null ? {} : { sessionID: row.session_id }),
    ...(row.caller === null ? {} : { caller: row.caller }),
    createdBy: row.created_by,
    createdAt: row.created_at,
  };
}
