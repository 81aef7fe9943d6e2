import { type ApprovalDecision, type ApprovalRequest, redact } from "@toolrack/core";
import { restoreMasked } from "./restore-masked.ts";

type Arguments = Readonly<Record<string, unknown>>;

/** Keeps secrets out of what is stored and shown of questions. */
export class QuestionMask {
  readonly #secrets: () => Iterable<string>;

  constructor(secrets: () => Iterable<string> = () => []) {
    this.#secrets = secrets;
  }

  /** What is kept and shown of a question: the arguments with their secrets masked. */
  shownOf(request: ApprovalRequest): ApprovalRequest {
    const { input, details } = request;
    return {
      ...request,
      input: this.#mask(input),
      message: String(redact(request.message, { values: this.#secrets() })),
      ...(details === undefined ? {} : { details: this.#mask(details) }),
    };
  }

  /** What is kept and shown of an answer. */
  shownDecision(decision: ApprovalDecision): ApprovalDecision {
    if (decision.decision === "deny" || decision.arguments === undefined) return decision;
    return { ...decision, arguments: this.#mask(decision.arguments) };
  }

  /** Arguments that somebody edited who was shown masked ones: what was left masked is what it was. */
  restore(edited: Arguments, input: Arguments): Arguments {
    // An object stays one.
    return restoreMasked(edited, this.#mask(input), input) as Arguments;
  }

  #mask(value: Arguments): Record<string, unknown> {
    const copy = redact(value, { values: this.#secrets() });
    // An object stays one, unless it could not be read at all.
    return typeof copy === "object" && copy !== null ? (copy as Record<string, unknown>) : {};
  }
}
