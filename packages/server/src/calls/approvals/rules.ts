import { randomBytes } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import type { ApprovalRequest, ApprovalVerdict } from "@toolrack/core";
import { hasParts } from "@toolrack/core/internal";
import { type RackItem, toolMatcher } from "../../config/index.ts";
import { isRecord } from "../../helpers/index.ts";
import { type AnsweredFor, type ApprovalRule, type ApprovalStore, toKey } from "../../store/index.ts";

export type NewRule = AnsweredFor & Pick<ApprovalRule, "caller" | "decision">;

/** The approval rules of the store, kept in memory. */
export class RuleBook {
  readonly #store: ApprovalStore;
  readonly #changed: () => void;
  #all: readonly ApprovalRule[] = [];
  #changes = 0;

  /** `changed` is called whenever `all` is another list. */
  constructor(store: ApprovalStore, changed: () => void) {
    this.#store = store;
    this.#changed = changed;
  }

  get all(): readonly ApprovalRule[] {
    return this.#all;
  }

  #set(rules: readonly ApprovalRule[]): void {
    this.#all = rules;
    this.#changed();
  }

  /** Reads the rules that other processes made and removed. */
  async refresh(): Promise<void> {
    const changes = this.#changes;
    const rules = await this.#store.listRules();
    // The list may be older than a change that was made here while it was read, and must not undo that
    // change.
    if (changes === this.#changes) this.#set(rules);
  }

  async add(rule: NewRule, by: string): Promise<ApprovalRule> {
    const whole = { ...rule, id: newId(), createdBy: by, createdAt: Date.now() };
    await this.#store.addRule(whole);
    this.#changes++;
    this.#set([...this.#all, whole]);
    return whole;
  }

  async remove(id: string): Promise<boolean> {
    const isRemoved = await this.#store.removeRule(id);
    this.#changes++;
    this.#set(this.#all.filter((rule) => rule.id !== id));
    return isRemoved;
  }
}

/** The id of a question or a rule: short enough to be typed. */
export function newId(): string {
  return randomBytes(6).toString("hex");
}

/** Returns the name that a tool had before it was renamed because two sources wanted that name. */
export type FormerNameOf = (toolName: string) => string | undefined;

const strength = { deny: 0, ask: 1, allow: 2 };

/**
 * The rule that decides about a call of the tool: deny beats ask, and ask beats allow. Undefined when no rule
 * fits the call. `origin` is the caller of the first call of the chain.
 */
export function ruleFor(
  rules: readonly ApprovalRule[],
  tool: RackItem,
  request: ApprovalRequest,
  origin: string | undefined,
  formerNameOf?: FormerNameOf,
): ApprovalRule | undefined {
  const formerName = formerNameOf?.(tool.name);
  const fitting = rules.filter((rule) => isNamed(rule, tool, formerName) && fits(rule, request, origin));
  return fitting.sort((one, other) => strength[one.decision] - strength[other.decision])[0];
}

/**
 * The verdict of the rules on a call. Without a rule, dangerous tools and questions during a run need a
 * person's answer.
 */
export function verdictByRules(...call: Parameters<typeof ruleFor>): ApprovalVerdict {
  const rule = ruleFor(...call);
  const [, , { dangerous, stage }] = call;
  if (rule === undefined) return dangerous || stage === "during" ? "ask" : "allow";
  if (rule.decision !== "deny") return rule.decision;
  return { decision: "deny", reason: `the approval rule ${rule.id} denies ${rule.tool}` };
}

/**
 * Whether the rule is for this tool. A rule that denies or asks also counts when it is for the tool's former
 * name. A rule that allows does not: the consent may have been for another tool that had this name.
 */
function isNamed(rule: ApprovalRule, tool: RackItem, formerName: string | undefined): boolean {
  const isMeant = matcherOf(rule);
  if (isMeant(tool)) return true;
  return rule.decision !== "allow" && formerName !== undefined && isMeant({ name: formerName });
}

const matchers = new WeakMap<ApprovalRule, (tool: RackItem) => boolean>();

/** Rules never change, so each pattern is parsed once. */
function matcherOf(rule: ApprovalRule): (tool: RackItem) => boolean {
  const known = matchers.get(rule);
  if (known !== undefined) return known;
  const made = toolMatcher([rule.tool]);
  matchers.set(rule, made);
  return made;
}

function fits(rule: ApprovalRule, request: ApprovalRequest, origin: string | undefined): boolean {
  const { sessionID, caller, input } = rule;
  // The store shortens odd names of sessions and callers, so both sides are compared in their short form.
  if (sessionID !== undefined && toKey(sessionID) !== toKey(request.sessionID)) return false;
  if (caller !== undefined && (origin === undefined || toKey(caller) !== toKey(origin))) return false;
  return input === undefined || fitsValue(input, request.input, rule);
}

/**
 * Whether an argument fits a rule's pattern. An object must have all keys of the pattern, with values that
 * fit, and no other keys if the rule is exact. A list must have as many items as the pattern, each fitting
 * its own. A `*` in a text stands for any text. Everything else must be equal.
 */
function fitsValue(pattern: unknown, value: unknown, rule: ApprovalRule): boolean {
  if (typeof pattern === "string" && typeof value === "string") {
    return fitsText(pattern, value, rule.decision === "allow");
  }
  if (Array.isArray(pattern) && Array.isArray(value)) {
    return (
      pattern.length === value.length && pattern.every((part, index) => fitsValue(part, value[index], rule))
    );
  }
  if (!isRecord(pattern) || !isRecord(value)) return isDeepStrictEqual(pattern, value);
  const parts = Object.entries(pattern);
  if (rule.exact && Object.keys(value).length !== parts.length) return false;
  return parts.every(([key, part]) => Object.hasOwn(value, key) && fitsValue(part, value[key], rule));
}

function fitsText(pattern: string, value: string, isConsent: boolean): boolean {
  const parts = partsOf(pattern);
  // Consent to `drafts/*` does not cover `drafts/../accounts`.
  if (isConsent && parts.length > 1 && /(^|[\\/])\.\.([\\/]|$)/.test(value)) return false;
  return hasParts(value, parts);
}

/** Splits a pattern at its stars. `[*]` is a literal star. */
function partsOf(pattern: string): string[] {
  const parts = [""];
  for (const [token] of pattern.matchAll(/\[\*\]|\*|\[|[^*[]+/g)) {
    if (token === "*") parts.push("");
    else parts[parts.length - 1] += token === "[*]" ? "*" : token;
  }
  return parts;
}
