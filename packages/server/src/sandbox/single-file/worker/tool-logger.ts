import { inspect } from "node:util";
import type { LogLine } from "../messages.ts";
import type { CurrentCall } from "./current-call.ts";
import { describeThrown } from "./describe-thrown.ts";
import { encodeJson } from "./encode-json.ts";

type Write = (message: unknown, data?: unknown) => void;

export interface ToolLogger {
  readonly debug: Write;
  readonly info: Write;
  readonly warn: Write;
  readonly error: Write;
  readonly trace: Write;
  readonly fatal: Write;
  readonly log: (level: unknown, message?: unknown, data?: unknown) => void;
  readonly getLogPath: () => string;
}

const levels: Readonly<Record<string, LogLine["level"]>> = {
  trace: "debug",
  debug: "debug",
  info: "info",
  warn: "warn",
  warning: "warn",
  error: "error",
  fatal: "error",
};

/** `this.api.logger`. A line that cannot be written never fails the tool. */
export function toolLogger(calls: CurrentCall, tool: string): ToolLogger {
  const write = (level: LogLine["level"], message: unknown, data: unknown) => {
    const text = typeof message === "string" ? message : inspect(message, { depth: 4 });
    calls.log({ level, text, ...(data === undefined ? {} : { data: plain(data) }) });
  };
  const at =
    (level: LogLine["level"]): Write =>
    (message, data) =>
      write(level, message, data);
  return {
    trace: at("debug"),
    debug: at("debug"),
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
    fatal: at("error"),
    log: (level, message, data) => write(levels[String(level).toLowerCase()] ?? "info", message, data),
    getLogPath: () => `log/tools/${tool}.log`,
  };
}

function plain(data: unknown): unknown {
  if (data instanceof Error) return describeThrown(data);
  try {
    return encodeJson(data);
  } catch {
    return inspect(data, { depth: 2 });
  }
}
