import type { Logger } from "@toolrack/core";
import type { ApprovalStore, StoredApproval } from "../store/approvals/approval-store.ts";

/** How often it is looked for answers, in milliseconds. */
const LOOKING = 1_000;

/** Finds the answers that other processes took to questions that wait in this one. Looks only while some wait. */
export class AnswersOfOthers {
  readonly #store: Pick<ApprovalStore, "findDecided">;
  readonly #logger: Logger;
  readonly #take: (approval: StoredApproval) => Promise<void>;
  readonly #waiting = new Set<string>();
  /** Answers that make a rule, seen once. */
  readonly #seen = new Set<string>();
  #timer: NodeJS.Timeout | undefined;
  #isLooking = false;

  /** `take` is given an answer again until its question is left. */
  constructor(
    store: Pick<ApprovalStore, "findDecided">,
    logger: Logger,
    take: (approval: StoredApproval) => Promise<void>,
  ) {
    this.#store = store;
    this.#logger = logger;
    this.#take = take;
  }

  watch(id: string): void {
    this.#waiting.add(id);
    this.#timer ??= setInterval(() => void this.#look(), LOOKING).unref();
  }

  leave(id: string): void {
    this.#waiting.delete(id);
    this.#seen.delete(id);
    if (this.#waiting.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** Never rejects. */
  async #look(): Promise<void> {
    if (this.#isLooking) return;
    this.#isLooking = true;
    try {
      for (const approval of await this.#store.findDecided([...this.#waiting])) {
        if (this.#isReady(approval)) await this.#take(approval);
      }
    } catch (error) {
      this.#logger.debug("It could not be looked for answers that other processes took:", error);
    } finally {
      this.#isLooking = false;
    }
  }

  /** A rule is written after the answer that makes it, and is to count for what the call does next. */
  #isReady({ id, rule }: StoredApproval): boolean {
    if (rule === undefined || this.#seen.has(id)) return true;
    this.#seen.add(id);
    return false;
  }
}
