import type { LogLine } from "../../calls/log-line.ts";
import type { Cli } from "../cli.ts";
import { padDisplay } from "../text/display-width.ts";
import { formatDuration } from "../text/duration.ts";
import { oneLine } from "../text/printable.ts";

const NAME_WIDTH = 28;

/** One call as people read it: when, how it went, how long it took, what, for whom, and what went wrong. */
export function formatLogLine(
  cli: Cli,
  line: LogLine,
  withIds: boolean,
  style: Cli["style"] = (how, text) => cli.style(how, text),
): string {
  const isError = line.stat === "error";
  const name = withIds ? `${line.tool} ${line.callId ?? ""}` : (line.display ?? line.tool);
  const parts = [
    style("dim", localTime(line.ts)),
    style(isError ? "red" : "green", isError ? "error  " : "success"),
    padDisplay(typeof line.cost === "number" ? formatDuration(line.cost) : "", 9, "start"),
    padDisplay(oneLine(String(name)), NAME_WIDTH),
    oneLine(String(line.caller || "-")),
    ...(line.err === undefined ? [] : [oneLine(String(line.err))]),
  ];
  return parts.join("  ");
}

function localTime(timestamp: string): string {
  const time = new Date(timestamp);
  if (Number.isNaN(time.getTime())) return oneLine(timestamp);
  const two = (value: number) => String(value).padStart(2, "0");
  const date = `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())}`;
  return `${date} ${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}`;
}
