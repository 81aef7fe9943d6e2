import type { ToolState } from "@toolrack/core";
import type { TurnEnd, TurnEvent } from "../../chat/turn/events.ts";
import type { Cli } from "../cli.ts";
import { formatDuration } from "../text/duration.ts";
import { oneLine, printable } from "../text/printable.ts";

const LONGEST = 120;

/** Shows a turn as it happens: the answer on standard output, and one line for each call on standard error. */
export class TurnPrinter {
  readonly #cli: Cli;
  readonly #labels = new Map<string, string>();
  #isInLine = false;
  #hasSpoken = false;
  #isNewRound = false;

  constructor(cli: Cli) {
    this.#cli = cli;
  }

  print(event: TurnEvent): void {
    if (event.type === "text" || event.type === "refusal") this.#text(event.text);
    else if (event.type === "call") this.#call(event.callId, event.displayName, event.arguments);
    else if (event.type === "state") this.#state(event.callId, event.name, event.state);
    else if (event.type === "loop" && event.verdict.action !== "none") {
      this.talk(
        this.#cli.styleTalk(
          "yellow",
          `loop ${event.verdict.action}: ${oneLine(event.verdict.evidence ?? "")}`,
        ),
      );
    } else if (event.type === "retry")
      this.talk(`asking again in ${formatDuration(event.waitMs)}: ${oneLine(event.reason)}`);
    else if (event.type === "progress")
      this.#cli.status.set(`… ${event.update.message ?? event.update.progress}`);
  }

  end({ reason, message }: TurnEnd): void {
    this.#cli.status.clear();
    if (reason === "stopped") this.talk("Stopped.");
    // What the limits and the loop guard say stands in the answer already.
    if (reason === "error") this.talk(`error: ${printable(message ?? "The model did not answer.")}`);
    this.#finishLine();
  }

  /** Says something on a line of its own. */
  talk(text: string): void {
    this.#finishLine();
    this.#cli.talk(text);
  }

  #text(text: string): void {
    this.#cli.status.clear();
    const between = this.#isNewRound && this.#hasSpoken ? "\n" : "";
    this.#isNewRound = false;
    this.#hasSpoken = true;
    this.#cli.write(between + (process.stdout.isTTY ? printable(text) : text));
    this.#isInLine = !text.endsWith("\n");
  }

  #call(callId: string, name: string, written: string): void {
    const shown = oneLine(`${name} ${written === "{}" ? "" : written}`);
    this.#labels.set(callId, shown.length > LONGEST ? `${shown.slice(0, LONGEST - 1)}…` : shown);
    this.#isNewRound = true;
  }

  #state(callId: string, name: string, state: ToolState): void {
    const label = this.#labels.get(callId) ?? name;
    if (state.status === "running") {
      this.#finishLine();
      this.#cli.status.set(`▸ ${label}`);
    }
    if (state.status !== "completed" && state.status !== "error") return;
    this.#cli.status.clear();
    const took = formatDuration(state.time.end - state.time.start);
    if (state.status === "completed") this.talk(this.#cli.styleTalk("dim", `✓ ${label}  ${took}`));
    else this.talk(`${this.#cli.styleTalk("red", `✗ ${label}`)}  ${firstLine(state.error)}`);
  }

  #finishLine(): void {
    if (this.#isInLine) this.#cli.write("\n");
    this.#isInLine = false;
  }
}

function firstLine(text: string): string {
  const [line = ""] = text.split("\n");
  const shown = oneLine(line);
  return shown.length > LONGEST ? `${shown.slice(0, LONGEST - 1)}…` : shown;
}
