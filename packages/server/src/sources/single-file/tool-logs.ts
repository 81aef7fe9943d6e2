import { join } from "node:path";
import { redact } from "@toolrack/core";
import { CallLog, type CallLogOptions } from "../../log/call-log.ts";
import type { LogLine } from "./messages.ts";

const LONGEST_TEXT = 10_000;

export interface ToolLogsOptions extends Omit<CallLogOptions, "file"> {
  /** `log/tools` of the workspace. */
  readonly folder: string;
  readonly secrets: () => Iterable<string>;
}

/** A log file for every sandboxed tool that writes one: JSON lines with what it said, and in which call. */
export class ToolLogs {
  readonly #options: ToolLogsOptions;
  readonly #logs = new Map<string, CallLog>();

  constructor(options: ToolLogsOptions) {
    this.#options = options;
  }

  write(tool: string, callId: string | undefined, { level, text, data }: LogLine): void {
    const { folder, secrets, ...rest } = this.#options;
    let log = this.#logs.get(tool);
    if (log === undefined) {
      log = new CallLog({ ...rest, file: join(folder, `${tool}.log`) });
      this.#logs.set(tool, log);
    }
    const said = redact({ text: text.slice(0, LONGEST_TEXT), data }, { values: secrets() });
    const { text: message, data: plain } = said as { text: string; data?: unknown };
    log.write({
      ts: new Date().toISOString(),
      level,
      tool,
      ...(callId === undefined ? {} : { callId }),
      message,
      ...(plain === undefined ? {} : { data: plain }),
    });
  }

  close(): void {
    for (const log of this.#logs.values()) log.close();
    this.#logs.clear();
  }
}
