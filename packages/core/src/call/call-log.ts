import type { Logger } from "../tool/context.ts";
import type { CallFrame } from "./frame.ts";
import { type RedactOptions, redact } from "./redact.ts";
import { shownInput, sourceOf } from "./visible-input.ts";

export type LogLevel = keyof Logger;

/** Characters of a line that listeners are told. */
const LONGEST_LINE = 2_000;
/** Characters that are masked before a line is cut, which could leave one half of a secret. */
const LONGEST_MASKED = 64 * 1024;

/** A logger whose lines are also told to whoever listens, as what this call said. */
export function callLogger(frame: CallFrame, logger: Logger): Logger {
  const at =
    (level: LogLevel) =>
    (...values: unknown[]): void => {
      logger[level](...values);
      tellLog(frame, level, values);
    };
  return { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}

/** Tells listeners a line of the call, secrets masked. Never throws; nothing is told of a call that has ended. */
export function tellLog(frame: CallFrame, level: LogLevel, values: readonly unknown[]): void {
  const { events, settings } = frame.host;
  if (frame.ended || !events.wanted) return;
  const { found } = shownInput(frame, sourceOf(frame));
  const mask = { known: settings.secrets(), values: found };
  // Values are masked by their keys too, before they are a text.
  const text = values.map((value) => textOf(value, mask)).join(" ");
  if (text.trim() === "") return;
  events.emit({
    type: "log",
    callId: frame.callId,
    toolName: frame.toolName,
    level,
    text: text.length > LONGEST_LINE ? `${text.slice(0, LONGEST_LINE)}…` : text,
    at: Date.now(),
  });
}

function textOf(value: unknown, mask: RedactOptions): string {
  const said = value instanceof Error ? errorText(value) : value;
  const plain = redact(typeof said === "string" ? said.slice(0, LONGEST_MASKED) : said, mask);
  return typeof plain === "string" ? plain : (JSON.stringify(plain) ?? "undefined");
}

/** Its author may have put anything in these places. */
function errorText(error: Error): string {
  try {
    return `${error.name}: ${error.message}`;
  } catch {
    return "[unreadable]";
  }
}
