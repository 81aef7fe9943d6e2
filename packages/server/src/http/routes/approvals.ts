import type { Grant } from "../../access/index.ts";
import { type Answered, ForbiddenAnswer, type NewRule, UnfitAnswer } from "../../calls/index.ts";
import type { AnsweredFor, StoredApproval } from "../../store/index.ts";
import type { HttpParts } from "../app.ts";
import { ref } from "../schemas/common.ts";
import {
  blameCursor,
  defineRoute,
  HttpError,
  type Route,
  refuseRulePattern,
  toolPattern,
} from "../wire/index.ts";

interface ListQuery {
  readonly state?: StoredApproval["state"] | "all";
  readonly limit?: number;
  readonly cursor?: string;
}

interface DecisionBody {
  readonly decision: "allow" | "deny";
  readonly reason?: string;
  readonly arguments?: Record<string, unknown>;
  readonly scope?: "once" | "session" | "always";
  readonly pattern?: {
    readonly tool?: string;
    readonly arguments?: Record<string, unknown>;
    readonly exact?: boolean;
  };
}

/** How a rule says which arguments it is about. */
const argumentPattern =
  "Arguments that a call must have at least; `*` in a text stands for anything, and `[*]` for a star.";
const exactPattern = "The call has no other arguments than these.";

const identified = { id: { type: "string", minLength: 1, maxLength: 64 } };

export function approvalRoutes({ approvals }: HttpParts): Route[] {
  return [
    defineRoute<object, ListQuery>({
      method: "GET",
      path: "/api/approvals",
      id: "listApprovals",
      tag: "approvals",
      summary: "Questions that wait for a person, newest first",
      description:
        "For a token with a grant to approve: those that it may answer, so that a page may have fewer than `limit`. Secrets in the arguments are masked.",
      access: "token",
      query: {
        state: { enum: ["pending", "allowed", "denied", "expired", "all"], default: "pending" },
        limit: { type: "integer", minimum: 1, maximum: 500, default: 50 },
        cursor: { type: "string", description: "`next` of the page before." },
      },
      responses: { 200: { description: "A page of questions.", schema: ref("ApprovalPage") } },
      async handle({ query: { state = "pending", ...page }, grant }) {
        requireApprover(grant);
        const query = state === "all" ? page : { ...page, state };
        const { items, ...rest } = await approvals.list(query).catch(blameCursor);
        return { body: { items: items.filter((asked) => approvals.mayAnswer(asked, grant)), ...rest } };
      },
    }),
    defineRoute<{ id: string }>({
      method: "GET",
      path: "/api/approvals/{id}",
      id: "getApproval",
      tag: "approvals",
      summary: "One question, and the answer to it",
      access: "token",
      params: identified,
      responses: { 200: { description: "The question.", schema: ref("Approval") } },
      errors: ["approval_not_found"],
      async handle({ params: { id }, grant }) {
        requireApprover(grant);
        const approval = await requireApproval(id);
        if (!approvals.mayAnswer(approval, grant)) throw unknownApproval(id);
        return { body: approval };
      },
    }),
    defineRoute<{ id: string }, object, DecisionBody>({
      method: "POST",
      path: "/api/approvals/{id}",
      id: "decideApproval",
      tag: "approvals",
      summary: "Answers a question; the first answer counts",
      description: [
        "`scope` makes the answer a rule: `session` for further calls of the same caller in the call's session, `always` for all. The rule",
        "speaks of this tool whatever its arguments, unless `pattern` says which tools and which arguments. Arguments",
        "that were edited are validated at once; a masked secret that is left as it is stays what it was. A question",
        "whose `stage` is `during` comes from a tool that already runs: its arguments cannot be edited. A question whose",
        "server was restarted meanwhile can still be answered: agreeing makes the call anew, as `<callId>-resumed`. A call",
        "that waits on another node of the same store goes on within about two seconds. A token that may approve the tool",
        "and is no admin's can say yes or no, once: editing arguments and making rules is for admins.",
      ].join(" "),
      access: "token",
      params: identified,
      body: {
        required: true,
        schema: {
          type: "object",
          properties: {
            decision: { enum: ["allow", "deny"] },
            reason: { type: "string", maxLength: 2_000, description: "Reaches the caller and its model." },
            arguments: { type: "object", description: "With `allow`: run with these instead." },
            scope: { enum: ["once", "session", "always"], default: "once" },
            pattern: {
              type: "object",
              properties: {
                tool: {
                  type: "string",
                  minLength: 1,
                  maxLength: 200,
                  description: toolPattern,
                },
                arguments: { type: "object", description: argumentPattern },
                exact: { type: "boolean", default: false, description: exactPattern },
              },
              additionalProperties: false,
            },
          },
          required: ["decision"],
          additionalProperties: false,
        },
      },
      responses: { 200: { description: "The question as it was answered.", schema: ref("Approval") } },
      errors: ["approval_not_found", "approval_decided", "approval_elsewhere", "invalid_arguments"],
      async handle({ params: { id }, body, grant }) {
        requireApprover(grant);
        const { decision, reason, arguments: edited } = body;
        if (decision === "deny" && edited !== undefined) {
          throw misplaced("arguments", "Only a call that is allowed can be given other arguments.");
        }
        const rule = ruleOf(body, await requireApproval(id));
        const answer = {
          decision,
          ...(reason === undefined ? {} : { reason }),
          ...(edited === undefined ? {} : { arguments: edited }),
          ...(rule === undefined ? {} : { rule }),
        };
        const answered = await approvals
          .answer(id, answer, { name: grant.caller, grant })
          .catch(blameArguments);
        if (answered === undefined) throw unknownApproval(id);
        if (answered.outcome !== "accepted") throw tooLate(answered);
        return { body: answered.approval };
      },
    }),
  ];

  async function requireApproval(id: string): Promise<StoredApproval> {
    const approval = await approvals.get(id);
    if (approval === undefined) throw unknownApproval(id);
    return approval;
  }
}

/** What waits is nobody's business who could answer none of it. */
function requireApprover({ isApprover }: Grant): void {
  if (isApprover) return;
  throw new HttpError("forbidden", "Only an admin's token, or one with a grant to approve, may do this.");
}

function ruleOf(
  { scope = "once", pattern }: DecisionBody,
  approval: StoredApproval,
): AnsweredFor | undefined {
  if (scope === "once") {
    if (pattern === undefined) return undefined;
    throw misplaced("pattern", 'A pattern needs a `scope` of "session" or "always".');
  }
  if (scope === "session" && approval.sessionID === "") {
    throw misplaced("scope", 'The call belongs to no session. Answer it "once" or "always".');
  }
  if (pattern?.exact === true && pattern.arguments === undefined) {
    throw misplaced("pattern.exact", "An exact pattern says which `arguments` it is about.");
  }
  if (pattern?.tool !== undefined) refuseRulePattern("pattern.tool", pattern.tool);
  return {
    tool: pattern?.tool ?? approval.toolName,
    ...(pattern?.arguments === undefined ? {} : { input: pattern.arguments }),
    ...(pattern?.exact === true ? { exact: true } : {}),
    ...(scope === "session" ? { sessionID: approval.sessionID } : {}),
  };
}

/** It is the person's own mistake, not that of the caller who waits: the question stays open. */
function blameArguments(thrown: unknown): never {
  if (thrown instanceof ForbiddenAnswer) throw new HttpError("forbidden", thrown.message);
  if (!(thrown instanceof UnfitAnswer)) throw thrown;
  const { message, issues } = thrown;
  if (issues.length === 0) throw misplaced("arguments", message);
  throw new HttpError("invalid_arguments", `${message} The question stays open.`, { details: { issues } });
}

/** Something in the body that does not go with the rest of it. */
function misplaced(path: string, message: string): HttpError {
  return new HttpError("invalid_request", message, { details: { in: "body", issues: [{ path, message }] } });
}

function tooLate({ outcome, approval }: Answered): HttpError {
  const { id, state, decidedBy, decidedAt } = approval;
  if (outcome === "elsewhere") {
    const message = `The call of "${id}" waits on another node and is about to expire: that node would not learn of the answer in time. Answer it there.`;
    return new HttpError("approval_elsewhere", message, { details: { id } });
  }
  const who = decidedBy === undefined ? "" : ` by ${decidedBy}`;
  return new HttpError("approval_decided", `"${id}" was decided already: ${state}${who}.`, {
    details: {
      id,
      state,
      ...(decidedBy === undefined ? {} : { decidedBy }),
      ...(decidedAt === undefined ? {} : { decidedAt }),
    },
  });
}

function unknownApproval(id: string): HttpError {
  const message = `There is no question "${id}". GET /api/approvals lists those that wait.`;
  return new HttpError("approval_not_found", message, { details: { id } });
}

export function approvalRuleRoutes({ approvals }: HttpParts): Route[] {
  return [
    defineRoute({
      method: "GET",
      path: "/api/approval-rules",
      id: "listApprovalRules",
      tag: "approvals",
      summary: "Answers that were given for calls to come",
      access: "admin",
      responses: {
        200: {
          description: "The rules, oldest first.",
          schema: {
            type: "object",
            properties: { items: { type: "array", items: ref("ApprovalRule") } },
            required: ["items"],
          },
        },
      },
      handle: () => ({ body: { items: approvals.rules } }),
    }),
    defineRoute<object, object, NewRule>({
      method: "POST",
      path: "/api/approval-rules",
      id: "addApprovalRule",
      tag: "approvals",
      summary: "Answers calls to come",
      description:
        "Where several rules speak of a call, deny beats ask and ask beats allow. Where none does, dangerous tools ask.",
      access: "admin",
      body: {
        required: true,
        schema: {
          type: "object",
          properties: {
            tool: { type: "string", minLength: 1, maxLength: 200, description: toolPattern },
            decision: { enum: ["allow", "ask", "deny"] },
            input: { type: "object", description: argumentPattern },
            exact: { type: "boolean", default: false, description: exactPattern },
            sessionID: { type: "string", minLength: 1, description: "Only for calls of this session." },
            caller: { type: "string", minLength: 1, description: "Only for calls of this caller." },
          },
          required: ["tool", "decision"],
          additionalProperties: false,
        },
      },
      responses: { 200: { description: "The rule.", schema: ref("ApprovalRule") } },
      async handle({ body, grant }) {
        if (body.exact === true && body.input === undefined) {
          throw misplaced("exact", "An exact rule says which arguments it is about, in `input`.");
        }
        refuseRulePattern("tool", body.tool);
        return { body: await approvals.addRule(body, { name: grant.caller, grant }) };
      },
    }),
    defineRoute<{ id: string }>({
      method: "DELETE",
      path: "/api/approval-rules/{id}",
      id: "removeApprovalRule",
      tag: "approvals",
      summary: "Takes a rule back",
      access: "admin",
      params: { id: { type: "string", minLength: 1, maxLength: 64 } },
      responses: {
        200: {
          description: "It holds no more.",
          schema: { type: "object", properties: { id: { type: "string" } }, required: ["id"] },
        },
      },
      errors: ["approval_rule_not_found"],
      async handle({ params: { id }, grant }) {
        if (await approvals.removeRule(id, { name: grant.caller, grant })) return { body: { id } };
        const message = `There is no rule "${id}". GET /api/approval-rules lists them.`;
        throw new HttpError("approval_rule_not_found", message, { details: { id } });
      },
    }),
  ];
}
