import type { NewRule } from "../../../approvals/answer.ts";
import { HttpError } from "../http-error.ts";
import type { HttpParts } from "../parts.ts";
import { defineRoute, type Route } from "../route.ts";
import { ref } from "../schemas.ts";
import { refuseRulePattern, toolPattern } from "../tool-pattern.ts";
import { argumentPattern, exactPattern, misplaced } from "./approvals.ts";

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
        return { body: await approvals.addRule(body, grant.caller) };
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
      async handle({ params: { id } }) {
        if (await approvals.removeRule(id)) return { body: { id } };
        const message = `There is no rule "${id}". GET /api/approval-rules lists them.`;
        throw new HttpError("approval_rule_not_found", message, { details: { id } });
      },
    }),
  ];
}
