import type { Shown } from "../model/delta-merger.ts";
import { estimateTokens } from "../tools/estimate-tokens.ts";
import * as notices from "./notices.ts";

export interface AnswerLimits {
  /** Characters of text, reasoning and arguments together. */
  readonly maxAnswer: number;
  readonly maxTokens: number;
  /** Tokens that the turn took before. */
  readonly usedTokens: number;
}

/** The answer went over a limit while it came. The message says over which. */
export class AnswerOverLimit extends Error {
  override readonly name = "AnswerOverLimit";
}

/** Calls that one answer may begin: every one of them is kept and answered. */
const MOST_BEGUN = 1_000;
/** So many characters are counted at a time: rounding up each of many short pieces would add up. */
const COUNTED_AT_ONCE = 2_000;

/** Measures an answer while it comes, so that one without end fills neither the memory nor the store. */
export class AnswerMeter {
  readonly #limits: AnswerLimits;
  #characters = 0;
  #tokens = 0;
  #uncounted = "";

  constructor(limits: AnswerLimits) {
    this.#limits = limits;
  }

  /** Characters that may still come. */
  get left(): number {
    return Math.max(0, this.#limits.maxAnswer - this.#characters);
  }

  /** About what the answer took so far. */
  get tokens(): number {
    return this.#tokens + estimateTokens(this.#uncounted);
  }

  /** Says what is too much, once it is. `begun`: how many calls it has asked for. */
  add({ text, reasoning, refusal, written, kept }: Shown, begun: number): AnswerOverLimit | undefined {
    const { maxAnswer, maxTokens, usedTokens } = this.#limits;
    const said = text + reasoning + refusal + written;
    this.#characters += said.length + kept;
    if (this.#characters > maxAnswer) return new AnswerOverLimit(notices.answerLimit(maxAnswer));
    if (begun > MOST_BEGUN) return new AnswerOverLimit(notices.callLimit(MOST_BEGUN));
    this.#uncounted += said;
    if (this.#uncounted.length >= COUNTED_AT_ONCE) {
      this.#tokens += estimateTokens(this.#uncounted);
      this.#uncounted = "";
    }
    const used = usedTokens + this.#tokens;
    return used > maxTokens ? new AnswerOverLimit(notices.tokenLimit(used, maxTokens)) : undefined;
  }
}
