import { type Mask, MaskStream } from "@toolrack/core/internal";
import { type AnswerFacts, objectsIn } from "./answer-chunks.ts";
import type { TextPart } from "./turn.ts";

type Say = (type: TextPart["type"], text: string, logprobs?: unknown) => void;

/**
 * Masks secrets in an answer of a model while it comes: those of the workspace, and the key and the headers of its
 * provider. What may be the beginning of a secret is said when more is known.
 */
export class AnswerMask {
  readonly #mask: Mask;
  readonly #stream: MaskStream;
  readonly #say: Say;
  #type: TextPart["type"] = "text";
  /** The probabilities of tokens that wait, because a part of their text is held back. */
  #logprobs: unknown[] = [];
  /** The text of these tokens, before and after masking. */
  #before = "";
  #after = "";
  #hasMasked = false;

  constructor(mask: Mask, say: Say) {
    this.#mask = mask;
    this.#stream = new MaskStream(mask);
    this.#say = say;
  }

  readonly add: Say = (type, text, logprobs) => {
    if (text === "") return;
    if (type !== this.#type) this.end();
    this.#type = type;
    const shown = this.#stream.add(text);
    if (logprobs === undefined && this.#logprobs.length === 0) {
      this.#say(type, shown);
      return;
    }
    this.#logprobs.push(logprobs);
    this.#before += text;
    this.#tell(shown);
  };

  /**
   * Says what was held back. `isCut`: the answer did not end by itself. It may have ended within a secret, so that
   * more than a few characters of one stay unsaid.
   */
  end(isCut = false): void {
    this.#tell(this.#stream.rest(isCut));
  }

  #tell(shown: string): void {
    if (this.#logprobs.length > 0) this.#after += shown;
    if (this.#stream.isHolding || this.#logprobs.length === 0) {
      this.#say(this.#type, shown);
      return;
    }
    const isClean = this.#after === this.#before;
    this.#hasMasked ||= !isClean;
    // Log probabilities list the text token by token. Where a secret was masked they are left out, because they
    // would show it.
    this.#say(this.#type, shown, isClean ? joined(this.#logprobs) : undefined);
    this.#logprobs = [];
    this.#before = "";
    this.#after = "";
  }

  /** What a model says of a call. Arguments stay JSON. */
  inText(written: string): string {
    return this.#mask.inText(written);
  }

  inFacts(facts: AnswerFacts): AnswerFacts {
    const { logprobs, ...others } = this.#mask.apply(facts);
    return { ...others, ...(logprobs === undefined || this.#hasMasked ? {} : { logprobs }) };
  }

  inEcho<Value>(echo: Value): Value {
    return this.#mask.apply(echo);
  }
}

/** Joins the log probabilities of several chunks into those of one chunk. */
function joined(all: readonly unknown[]): unknown {
  const listOf = (key: string) => all.flatMap((logprobs) => objectsIn(Object(logprobs)[key]));
  const [content, refusal] = [listOf("content"), listOf("refusal")];
  return { content: content.length > 0 ? content : null, refusal: refusal.length > 0 ? refusal : null };
}
