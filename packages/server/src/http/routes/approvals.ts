import { type Grant, masterGrant } from "../../access/index.ts";
import type { Answered, ApprovalInbox } from "../../calls/index.ts";
import { runOfQuestion } from "../../code/index.ts";
import type { AnsweredFor, Store, StoredApproval } from "../../store/index.ts";
import type { HttpServices } from "../services.ts";
import {
  HttpError,
  misplaced,
  type Route,
  refuseRulePattern,
  routesFor,
  s,
  toolPattern,
} from "../wire/index.ts";

const tool = s.text(toolPattern, { minLength: 1, maxLength: 200 });
const input = s.anyObject(
  "Arguments that a call must have at least; `*` in a text stands for anything, and `[*]` for a star.",
);
const exact = s.boolean("The call has no other arguments than these.", { default: false });
const decision = {
  decision: s.choice(["allow", "deny"]),
  "reason?": s.text("Reaches the caller and its model.", { maxLength: 2_000 }),
  "arguments?": s.anyObject("With `allow`: run with these instead."),
  "scope?": s.choice(["once", "session", "always"], { default: "once" }),
  "pattern?": s.closed({ "tool?": tool, "arguments?": input, "exact?": exact }),
} as const;
const params = { id: s.text({ minLength: 1, maxLength: 64 }) };

export function approvalRoutes({
  approvals,
  store,
}: Pick<HttpServices, "approvals"> & { readonly store: Pick<Store, "calls"> }): Route[] {
  /** The question with the code whose call it is about. */
  const withRun = async (approval: StoredApproval) => {
    const run = await runOfQuestion(approval, store.calls);
    return run === undefined ? approval : { ...approval, run };
  };
  const route = routesFor("approvals", "token");
  const rule = routesFor("approvals", "admin");
  return [
    route("GET /api/approvals", "listApprovals", "Questions that wait for a person, newest first", {
      description:
        "For a token with a grant to approve: those that it may answer, so that a page may have fewer than `limit`. Secrets in the arguments are masked.",
      query: {
        state: s.choice(["pending", "allowed", "denied", "expired", "all"], { default: "pending" }),
        limit: s.integer({ minimum: 1, maximum: 500, default: 50 }),
        cursor: s.text("`next` of the page before."),
      },
      answer: ["A page of questions.", s.ref("ApprovalPage")],
      async handle({ query: { state, ...page }, grant }) {
        requireApprover(grant);
        const query = state === "all" ? page : { ...page, state };
        const { items, ...rest } = await approvals.list(query);
        const seen = items.filter((asked) => approvals.mayAnswer(asked, grant));
        return { items: await Promise.all(seen.map(withRun)), ...rest };
      },
    }),
    route("GET /api/approvals/{id}", "getApproval", "One question, and the answer to it", {
      params,
      answer: ["The question.", s.ref("Approval")],
      errors: ["approval_not_found"],
      async handle({ params: { id }, grant }) {
        requireApprover(grant);
        const approval = await requireApproval(id);
        if (!approvals.mayAnswer(approval, grant)) throw unknownApproval(id);
        return withRun(approval);
      },
    }),
    route("POST /api/approvals/{id}", "decideApproval", "Answers a question; the first answer counts", {
      description: [
        "`scope` makes the answer a rule: `session` for further calls of the same caller in the call's session, `always` for all. The rule",
        "speaks of this tool whatever its arguments, unless `pattern` says which tools and which arguments. Arguments",
        "that were edited are validated at once; a masked secret that is left as it is stays what it was. A question",
        "whose `stage` is `during` comes from a tool that already runs: its arguments cannot be edited. A question whose",
        "server was restarted meanwhile can still be answered: agreeing makes the call anew, as `<callId>-resumed`. A call",
        "that waits on another node of the same store goes on within about two seconds. A token that may approve the tool",
        "and is no admin's can say yes or no, once: editing arguments and making rules is for admins.",
      ].join(" "),
      params,
      body: s.closed(decision),
      answer: ["The question as it was answered.", s.ref("Approval")],
      errors: ["approval_not_found", "approval_decided", "approval_elsewhere", "invalid_arguments"],
      async handle({ params: { id }, body, grant }) {
        requireApprover(grant);
        const { decision, reason, arguments: edited } = body;
        if (decision === "deny" && edited !== undefined) {
          throw misplaced("arguments", "Only a call that is allowed can be given other arguments.");
        }
        const answer = {
          decision,
          ...(reason === undefined ? {} : { reason }),
          ...(edited === undefined ? {} : { arguments: edited }),
          ...ruleOf(body, await requireApproval(id)),
        };
        const answered = await approvals.answer(id, answer, { name: grant.caller, grant });
        if (answered === undefined) throw unknownApproval(id);
        if (answered.outcome !== "accepted") throw tooLate(answered);
        return answered.approval;
      },
    }),
    rule("GET /api/approval-rules", "listApprovalRules", "Answers that were given for calls to come", {
      answer: ["The rules, oldest first.", s.items(s.ref("ApprovalRule"))],
      handle: () => ({ items: approvals.rules }),
    }),
    rule("POST /api/approval-rules", "addApprovalRule", "Answers calls to come", {
      description:
        "Where several rules speak of a call, deny beats ask and ask beats allow. Where none does, dangerous tools ask.",
      body: s.closed({
        tool,
        decision: s.choice(["allow", "ask", "deny"]),
        "input?": input,
        "exact?": exact,
        "sessionID?": s.text("Only for calls of this session.", { minLength: 1 }),
        "caller?": s.text("Only for calls of this caller.", { minLength: 1 }),
      }),
      answer: ["The rule.", s.ref("ApprovalRule")],
      async handle({ body, grant }) {
        if (body.exact === true && body.input === undefined) {
          throw misplaced("exact", "An exact rule says which arguments it is about, in `input`.");
        }
        refuseRulePattern("tool", body.tool);
        return approvals.addRule(body, { name: grant.caller, grant });
      },
    }),
    rule("DELETE /api/approval-rules/{id}", "removeApprovalRule", "Takes a rule back", {
      params,
      answer: ["It holds no more.", s.object({ id: s.text() })],
      errors: ["approval_rule_not_found"],
      async handle({ params: { id }, grant }) {
        if (await approvals.removeRule(id, { name: grant.caller, grant })) return { id };
        const message = `There is no rule "${id}". GET /api/approval-rules lists them.`;
        throw new HttpError("approval_rule_not_found", message, { details: { id } });
      },
    }),
  ];

  async function requireApproval(id: string): Promise<StoredApproval> {
    const approval = await approvals.get(id);
    if (approval === undefined) throw unknownApproval(id);
    return approval;
  }
}

/**
 * Answers a request to one of these routes as the operator's, in a process that serves none. Throws `HttpError`.
 */
export async function askApprovals(
  parts: { readonly approvals: ApprovalInbox; readonly store: Pick<Store, "calls"> },
  method: string,
  address: string,
  body: object = {},
): Promise<unknown> {
  const [path = "", search] = address.split("?");
  const query = Object.fromEntries(new URLSearchParams(search));
  for (const route of approvalRoutes(parts)) {
    const found = new RegExp(`^${route.path.replace("{id}", "(?<id>[^/]+)")}$`).exec(path);
    if (found === null || route.method !== method) continue;
    const params = { id: decodeURIComponent(found.groups?.id ?? "") };
    const request = {
      params,
      query: { ...query, limit: Number(query.limit ?? 50) },
      body,
      grant: masterGrant,
    };
    // The handlers of these routes read nothing else of a request, and the command line sends what they accept.
    return route.handle(request as never);
  }
  throw new Error(`There is no route ${method} ${path}.`);
}

/** Throws unless the caller may answer some question. Other callers may not see the questions. */
function requireApprover({ isApprover }: Grant): void {
  if (isApprover) return;
  throw new HttpError("forbidden", "Only an admin's token, or one with a grant to approve, may do this.");
}

function ruleOf(
  { scope = "once", pattern }: s.Values<typeof decision>,
  asked: StoredApproval,
): { rule?: AnsweredFor } {
  if (scope === "once") {
    if (pattern === undefined) return {};
    throw misplaced("pattern", 'A pattern needs a `scope` of "session" or "always".');
  }
  if (scope === "session" && asked.sessionID === "") {
    throw misplaced("scope", 'The call belongs to no session. Answer it "once" or "always".');
  }
  if (pattern?.exact === true && pattern.arguments === undefined) {
    throw misplaced("pattern.exact", "An exact pattern says which `arguments` it is about.");
  }
  if (pattern?.tool !== undefined) refuseRulePattern("pattern.tool", pattern.tool);
  const rule = {
    tool: pattern?.tool ?? asked.toolName,
    ...(pattern?.arguments === undefined ? {} : { input: pattern.arguments }),
    ...(pattern?.exact === true ? { exact: true } : {}),
    ...(scope === "session" ? { sessionID: asked.sessionID } : {}),
  };
  return { rule };
}

function tooLate({ outcome, approval }: Answered): HttpError {
  const { id, state, decidedBy, decidedAt } = approval;
  if (outcome === "elsewhere") {
    const message = `The call of "${id}" waits on another node and is about to expire: that node would not learn of the answer in time. Answer it there.`;
    return new HttpError("approval_elsewhere", message, { details: { id } });
  }
  const who = decidedBy === undefined ? "" : ` by ${decidedBy}`;
  const details = { id, state, decidedBy, decidedAt };
  return new HttpError("approval_decided", `"${id}" was decided already: ${state}${who}.`, { details });
}

function unknownApproval(id: string): HttpError {
  const message = `There is no question "${id}". GET /api/approvals lists those that wait.`;
  return new HttpError("approval_not_found", message, { details: { id } });
}
