import type { ApprovalDecision, ApprovalRequest, ApprovalVerdict } from "@toolrack/core";

type Consent = Extract<ApprovalDecision, { decision: "allow" }>;

/** Calls that are made anew with an answer that was given before they began. It counts for the call itself, not for what it calls. */
export class AgreedCalls {
  readonly #answers = new Map<string, Consent>();

  get isEmpty(): boolean {
    return this.#answers.size === 0;
  }

  has(callId: string): boolean {
    return this.#answers.has(callId);
  }

  /** Makes the call, whose question is answered already. */
  async during(callId: string, answer: Consent, make: () => Promise<unknown>): Promise<void> {
    this.#answers.set(callId, answer);
    try {
      await make();
    } finally {
      this.#answers.delete(callId);
    }
  }

  /** What was answered, unless a rule forbids the call. */
  verdict(request: ApprovalRequest, byRules: ApprovalVerdict): ApprovalVerdict {
    const answer = this.answerTo(request);
    return answer !== undefined && typeof byRules === "string" ? answer : byRules;
  }

  /** For a host that only asks. */
  answerTo({ callId, stage }: ApprovalRequest): ApprovalDecision | undefined {
    return stage === "before" ? this.#answers.get(callId) : undefined;
  }
}
