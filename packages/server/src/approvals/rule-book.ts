import type { ApprovalRequest, ApprovalVerdict } from "@toolrack/core";
import type { RackItem } from "../auth/upstream-origin.ts";
import type { ApprovalRule, ApprovalStore } from "../store/approvals/approval-store.ts";
import type { NewRule } from "./answer.ts";
import { newId } from "./new-id.ts";
import type { FormerNameOf } from "./rule-for.ts";
import { verdictByRules } from "./verdict-by-rules.ts";

/** The answers for calls to come: as the store has them, at hand without asking it. */
export class RuleBook {
  readonly #store: Pick<ApprovalStore, "addRule" | "listRules" | "removeRule">;
  readonly #formerNameOf: FormerNameOf | undefined;
  #rules: readonly ApprovalRule[] = [];
  /** Counts the rules made and removed here. */
  #changes = 0;

  constructor(
    store: Pick<ApprovalStore, "addRule" | "listRules" | "removeRule">,
    formerNameOf: FormerNameOf | undefined,
  ) {
    this.#store = store;
    this.#formerNameOf = formerNameOf;
  }

  get all(): readonly ApprovalRule[] {
    return this.#rules;
  }

  /** Takes up what other processes made and removed. */
  async refresh(): Promise<void> {
    const changes = this.#changes;
    const rules = await this.#store.listRules();
    // A rule that was made here in the meantime is not lost to an older list.
    if (changes === this.#changes) this.#rules = rules;
  }

  async add(rule: NewRule, by: string): Promise<ApprovalRule> {
    const whole = { ...rule, id: newId(), createdBy: by, createdAt: Date.now() };
    await this.#store.addRule(whole);
    this.#changes++;
    this.#rules = [...this.#rules, whole];
    return whole;
  }

  async remove(id: string): Promise<boolean> {
    const isRemoved = await this.#store.removeRule(id);
    this.#changes++;
    this.#rules = this.#rules.filter((rule) => rule.id !== id);
    return isRemoved;
  }

  verdict(tool: RackItem, request: ApprovalRequest, caller: string | undefined): ApprovalVerdict {
    return verdictByRules(this.#rules, tool, request, caller, this.#formerNameOf);
  }
}
