import { clipDisplay } from "./text/display-width.ts";
import { oneLine } from "./text/printable.ts";

const CLEAR = "\r\u001b[2K";

/** One line at the bottom of standard error that is written over and over, on a terminal only. */
export class StatusLine {
  #shown = "";

  set(text: string): void {
    const { stderr } = process;
    if (!stderr.isTTY) return;
    // A full line would wrap, and what wrapped could not be cleared.
    this.#shown = clipDisplay(oneLine(text), (stderr.columns || 80) - 1);
    stderr.write(CLEAR + this.#shown);
  }

  clear(): void {
    if (this.#shown === "") return;
    this.#shown = "";
    process.stderr.write(CLEAR);
  }

  /** Writes something for good, and the line again below it. */
  above(text: string): void {
    const line = this.#shown;
    process.stderr.write(line === "" ? text : CLEAR + text + line);
  }
}
