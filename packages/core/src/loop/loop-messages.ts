import type { Inferred, LoopSighting, LoopSignal, LoopVerdict } from "./types.ts";

type Seen = Pick<LoopSighting, "signal" | "count" | "period">;

/** One clause: what repeats, how often, since which call, and what of it was inferred. */
export function loopEvidence(
  seen: Seen,
  tool: string,
  since: number,
  inferred: readonly Inferred[] = [],
): string {
  const guesses = inferred.map((what) => inferences[what]);
  return guesses.length === 0
    ? whatRepeats(seen, tool, since)
    : `${whatRepeats(seen, tool, since)} (inferred: ${guesses.join(", ")})`;
}

const inferences: Record<Inferred, string> = {
  readOnly: "the calls only read",
  error: "the calls failed",
};

function whatRepeats({ signal, count, period }: Seen, tool: string, since: number): string {
  switch (signal) {
    case "repeat":
      return `${nth(count)} identical call of ${tool}, same result since call #${since}; nothing changed in between`;
    case "cycle":
      return `the same ${period} calls for the ${nth(count)} time, same results since call #${since}`;
    case "same_error":
      return `${nth(count)} call with the same error since call #${since}, now of ${tool}; nothing was changed in between`;
    case "stagnation":
      return `${nth(count)} call of ${tool} in a row with the same result since call #${since}, although the arguments differ`;
    case "drought":
      return `${nth(count)} call in a row that repeats an earlier call and its result, since call #${since}`;
    case "known_answers":
      return `${nth(count)} call in a row whose answer was given before, since call #${since}, whatever the arguments`;
    case "interleaved":
      return `${nth(count)} identical call of ${tool} among the latest ones, same result since call #${since}; nothing changed in between`;
    case "refused":
      return `${nth(count)} call of ${tool} refused for the same reason since call #${since}`;
  }
}

/**
 * The text for the model, empty when there is nothing to say: to append to the result (nudge), to give instead
 * of a result (block), or to end the run with (stop).
 */
export function loopMessage(verdict: LoopVerdict): string {
  const evidence = verdict.evidence ?? "the latest calls repeat earlier ones";
  const advice = verdict.signal === undefined ? nothingMore : instead[verdict.signal];
  switch (verdict.action) {
    case "none":
      return "";
    case "nudge":
      return `Loop notice: ${evidence}. ${advice}`;
    case "block":
      return `Not run, because it would repeat what is known: ${evidence}. ${stillHolds(verdict)}${advice}`;
    case "stop":
      return `Run stopped, because it goes in circles: ${evidence}. ${stillHolds(verdict)}${handOver}`;
  }
}

const handOver =
  "Make no more calls. Say what was tried, what stands in the way, and which decision or information is needed to go on.";

const useResult =
  "Use the result you have. To get another one, first change something: the arguments, the tool, or what the tool looks at.";
const nothingMore =
  "These calls have nothing more to tell. Decide on the basis of what they said, change something, or look in a place not looked at yet.";

const instead: Record<LoopSignal, string> = {
  repeat: useResult,
  cycle:
    "These steps lead back to where they began. Use what they showed, and take a step that is not one of them.",
  same_error:
    "Calling it in yet another way does not help. Read the error, find out what it depends on and change that first, or use another tool.",
  stagnation:
    "Varying the arguments brings nothing new from this tool. Take the result as the answer, or look in another place with another tool.",
  drought: nothingMore,
  known_answers: nothingMore,
  interleaved: useResult,
  refused:
    "The call stays refused as it is. Read the reason, then use a name and arguments that the tool list allows, or go another way.",
};

/** One sentence: what would clear a verdict. */
export function loopClears(action: LoopVerdict["action"], signal: LoopSignal, tool: string): string {
  if (action === "stop") return "Only a person can let the session go on, or begin it anew.";
  switch (signal) {
    case "repeat":
      return `Another call in between, or another result of ${tool}.`;
    case "cycle":
      return "A call that is not one of these, or another result of one of them.";
    case "same_error":
      return `A call that changes something, another result of ${tool}, or other arguments after a new result of another tool.`;
    case "stagnation":
      return `A call of another tool, or another result of ${tool}.`;
    case "drought":
    case "known_answers":
    case "interleaved":
      return "A call that gives a new answer, or one that changes something.";
    case "refused":
      return `A call of ${tool} that is not refused.`;
  }
}

function stillHolds({ previousCallId }: LoopVerdict): string {
  return previousCallId ? `The result of call ${previousCallId} still holds. ` : "";
}

function nth(count: number): string {
  const tens = count % 100;
  if (tens >= 11 && tens <= 13) return `${count}th`;
  return `${count}${["th", "st", "nd", "rd"][count % 10] ?? "th"}`;
}
