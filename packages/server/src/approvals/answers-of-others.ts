import type { Logger } from "@toolrack/core";
import { Lookout } from "../async/lookout.ts";
import type { ApprovalStore, StoredApproval } from "../store/approvals/approval-store.ts";

/** Finds the answers that other processes took to questions that wait in this one. Looks only while some wait. */
export class AnswersOfOthers {
  readonly #store: Pick<ApprovalStore, "findDecided">;
  readonly #take: (approval: StoredApproval) => Promise<void>;
  readonly #waiting = new Set<string>();
  /** Answers that make a rule, seen once. */
  readonly #seen = new Set<string>();
  readonly #lookout: Lookout;

  /** `take` is given an answer again until its question is left. */
  constructor(
    store: Pick<ApprovalStore, "findDecided">,
    logger: Logger,
    take: (approval: StoredApproval) => Promise<void>,
  ) {
    this.#store = store;
    this.#take = take;
    this.#lookout = new Lookout({
      look: () => this.#look(),
      failed: (error) => logger.debug("It could not be looked for answers that other processes took:", error),
    });
  }

  watch(id: string): void {
    this.#waiting.add(id);
    this.#lookout.start();
  }

  leave(id: string): void {
    this.#waiting.delete(id);
    this.#seen.delete(id);
    if (this.#waiting.size === 0) void this.#lookout.stop();
  }

  async #look(): Promise<void> {
    for (const approval of await this.#store.findDecided([...this.#waiting])) {
      if (this.#isReady(approval)) await this.#take(approval);
    }
  }

  /** A rule is written after the answer that makes it, and is to count for what the call does next. */
  #isReady({ id, rule }: StoredApproval): boolean {
    if (rule === undefined || this.#seen.has(id)) return true;
    this.#seen.add(id);
    return false;
  }
}
