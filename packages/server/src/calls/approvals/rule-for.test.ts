import type { ApprovalRequest } from "@toolrack/core";
import { describe, expect, it } from "vitest";
import { upstreamOrigin } from "../../config/tool-patterns.ts";
import type { ApprovalRule } from "../../store/approvals.ts";
import { toKey } from "../../store/keys.ts";
import { ruleFor } from "./rules.ts";

const rule = (decision: ApprovalRule["decision"], tool: string, more: Partial<ApprovalRule> = {}) => ({
  id: `${decision} ${tool}`,
  tool,
  decision,
  createdBy: "tester",
  createdAt: 0,
  ...more,
});

const request = (input: Record<string, unknown> = {}, sessionID = "s1"): ApprovalRequest => ({
  callId: "c",
  toolName: "file_delete",
  displayName: "file_delete",
  input,
  message: "?",
  dangerous: true,
  stage: "before",
  sessionID,
  caller: "tester",
  expiresAt: 0,
});

const verdict = (rules: ApprovalRule[], asked = request()) =>
  ruleFor(rules, { name: asked.toolName }, asked, asked.caller)?.decision;

describe("the rule for a call", () => {
  it("is none when no rule speaks of it", () => {
    expect(verdict([])).toBeUndefined();
    expect(verdict([rule("allow", "file_read")])).toBeUndefined();
  });

  it("for one caller holds for what that caller's calls make in turn, and for nobody else", () => {
    const rules = [rule("allow", "file_*", { sessionID: "s1", caller: "ann_1" })];
    const nested = { ...request(), caller: "outer_7" };
    expect(ruleFor(rules, { name: nested.toolName }, nested, "ann_1")?.decision).toBe("allow");
    expect(ruleFor(rules, { name: nested.toolName }, nested, "bob_2")).toBeUndefined();
    expect(ruleFor(rules, { name: nested.toolName }, nested, undefined)).toBeUndefined();
  });

  it("for a caller whose name the store has shortened still holds", () => {
    const caller = "ann ".repeat(60);
    const rules = [rule("deny", "file_*", { caller: toKey(caller) })];
    expect(ruleFor(rules, { name: "file_delete" }, request(), caller)?.decision).toBe("deny");
    expect(ruleFor(rules, { name: "file_delete" }, request(), "ann")).toBeUndefined();
  });

  it("denies before it asks, and asks before it allows, whichever came first", () => {
    const all = [rule("allow", "file_delete"), rule("deny", "*"), rule("ask", "file_*")];
    expect(verdict(all)).toBe("deny");
    expect(verdict(all.filter(({ decision }) => decision !== "deny"))).toBe("ask");
    expect(verdict(all.slice(0, 1))).toBe("allow");
  });

  it("may hold for one session only", () => {
    const rules = [rule("allow", "file_delete", { sessionID: "s1" })];
    expect(verdict(rules)).toBe("allow");
    expect(verdict(rules, request({}, "s2"))).toBeUndefined();
    expect(verdict(rules, request({}, ""))).toBeUndefined();
  });

  it.each([
    [{ path: "drafts/*" }, { path: "drafts/a.txt", force: true }, true],
    [{ path: "drafts/*" }, { path: "Drafts/a.txt" }, false],
    [{ path: "drafts/*" }, { path: "drafts/../accounts" }, false],
    [{ path: "drafts/*" }, { path: "drafts/a..b" }, true],
    [{ path: "drafts/*" }, {}, false],
    [{ path: "a*b*c" }, { path: "a-b-b-c" }, true],
    [{ path: "a*a" }, { path: "a" }, false],
    [{ force: true }, { force: true }, true],
    [{ force: true }, { force: "true" }, false],
    [{ at: { x: 1 } }, { at: { x: 1, y: 2 } }, true],
    [{ tags: ["a"] }, { tags: ["a", "b"] }, false],
    [{ tags: ["a*", { x: 1 }] }, { tags: ["ab", { x: 1 }] }, true],
    [{ tags: ["a*"] }, { tags: ["b"] }, false],
    [{ amount: 10 }, { amount: 10 }, true],
    [{ amount: 10 }, { amount: 999_999 }, false],
    [{ to: null }, { to: null }, true],
    [{ to: null }, { to: "x" }, false],
    [{ to: "[*]" }, { to: "*" }, true],
    [{ to: "[*]" }, { to: "Mallory" }, false],
    [{ to: "[[*]]" }, { to: "[*]" }, true],
    [{ to: "a[*]*" }, { to: "a*b" }, true],
    [{ to: "a[*]*" }, { to: "ab" }, false],
    [{ to: "x[" }, { to: "x[" }, true],
    [{ toString: "*" }, {}, false],
  ])("allows %j for %j: %s", (pattern, input, fits) => {
    expect(verdict([rule("allow", "file_delete", { input: pattern })], request(input))).toBe(
      fits ? "allow" : undefined,
    );
  });

  it.each([
    [{ path: "a" }, { path: "a" }, true],
    [{ path: "a" }, { path: "a", force: true }, false],
    [{ at: { x: 1 } }, { at: { x: 1, y: 2 } }, false],
    [{ list: [{ x: 1 }] }, { list: [{ x: 1, y: 2 }] }, false],
    [{ path: "a*" }, { path: "ab" }, true],
    [{}, {}, true],
    [{}, { path: "a" }, false],
  ])("exactly %j allows %j: %s", (pattern, input, fits) => {
    const rules = [rule("allow", "file_delete", { input: pattern, exact: true })];
    expect(verdict(rules, request(input))).toBe(fits ? "allow" : undefined);
  });

  it.each(["file_delete", "FILE_delete", "*_delete"])(
    "for %s goes on to deny and to ask where the tool has given that name up, and never to allow",
    (tool) => {
      const asked = { ...request(), toolName: "file_delete_1a2b3c4d" };
      const formerNameOf = (name: string) => (name === asked.toolName ? "file_delete" : undefined);
      const decided = (decision: ApprovalRule["decision"]) =>
        ruleFor([rule(decision, tool)], { name: asked.toolName }, asked, asked.caller, formerNameOf)
          ?.decision;
      expect([decided("deny"), decided("ask"), decided("allow")]).toEqual(["deny", "ask", undefined]);
    },
  );

  it("for a server holds for its tools, by the names that it gives them, whatever they gave up", () => {
    const asked = { ...request(), toolName: "mcp_git_admin_wipe_1a2b3c4d" };
    const mcp = upstreamOrigin({ server: "git", tool: "admin_wipe" });
    const tool = { name: asked.toolName, metadata: { mcp } };
    const formerNameOf = () => "mcp_git_admin_wipe";
    const decided = (pattern: string, decision: ApprovalRule["decision"] = "allow") =>
      ruleFor([rule(decision, pattern)], tool, asked, asked.caller, formerNameOf)?.decision;
    expect([decided("mcp:git"), decided("mcp:git/admin_*")]).toEqual(["allow", "allow"]);
    expect([decided("mcp:git_admin", "deny"), decided("mcp:git/wipe", "deny")]).toEqual([
      undefined,
      undefined,
    ]);
  });

  it("denies a path that climbs, where it would not allow it", () => {
    const rules = [rule("deny", "file_delete", { input: { path: "drafts/*" } })];
    expect(verdict(rules, request({ path: "drafts/../accounts" }))).toBe("deny");
  });
});
