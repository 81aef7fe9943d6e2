const opening = /<(?:tool_action|action)(?=[\s/>])/;
/** What could become an opening tag with what comes next. */
const beginning =
  /<(?:t(?:o(?:o(?:l(?:_(?:a(?:c(?:t(?:i(?:o(?:n)?)?)?)?)?)?)?)?)?)?|a(?:c(?:t(?:i(?:o(?:n)?)?)?)?)?)?$/;

/**
 * Lets through the text that a person reads, and holds back the calls that a model writes into it, with what stands
 * behind them: only the whole text tells what is a call.
 */
export class TagFilter {
  #held = "";
  #isHolding = false;
  #shown = 0;

  /** What can be shown now. */
  add(text: string): string {
    this.#held += text;
    if (this.#isHolding) return "";
    const start = opening.exec(this.#held)?.index;
    this.#isHolding = start !== undefined;
    const end = start ?? beginning.exec(this.#held)?.index ?? this.#held.length;
    const shown = this.#held.slice(0, end);
    this.#held = this.#held.slice(end);
    this.#shown += shown.length;
    return shown;
  }

  /** What is still to be shown of the text that is left without its calls. */
  rest(text: string): string {
    const rest = text.slice(this.#shown);
    return rest.trim() === "" ? "" : rest;
  }
}
