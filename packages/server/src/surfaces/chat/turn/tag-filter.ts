const opening = /<(?:tool_action|action)(?=[\s/>])/;
/** What could become an opening tag with what comes next. */
const beginning =
  /<(?:t(?:o(?:o(?:l(?:_(?:a(?:c(?:t(?:i(?:o(?:n)?)?)?)?)?)?)?)?)?)?|a(?:c(?:t(?:i(?:o(?:n)?)?)?)?)?)?$/;

/** Lets through the text that a person reads, and holds back the calls that a model writes into it. */
export class TagFilter {
  #held = "";
  #isHolding = false;

  /** What can be shown now. */
  add(text: string): string {
    this.#held += text;
    if (this.#isHolding) return "";
    const start = opening.exec(this.#held)?.index;
    this.#isHolding = start !== undefined;
    const end = start ?? beginning.exec(this.#held)?.index ?? this.#held.length;
    const shown = this.#held.slice(0, end);
    this.#held = this.#held.slice(end);
    return shown;
  }

  /** What was held back. It is text after all when no call was found in it. */
  rest(): string {
    return this.#held;
  }
}
