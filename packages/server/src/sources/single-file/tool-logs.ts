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

  /** Answers with the line as it may be shown to people: no secret is in it. */
  write(tool: string, callId: string | undefined, { level, text, data }: LogLine): LogLine {
    const { folder, secrets, ...rest } = this.#options;
    let log = this.#logs.get(tool);
    if (log === undefined) {
      log = new CallLog({ ...rest, file: join(folder, `${tool}.log`) });
      this.#logs.set(tool, log);
    }
    // Masked before it is cut, which could leave one half of a secret.
    const masked = redact({ text, data }, { values: secrets() }) as { text: string; data?: unknown }; // Its copy.
    const message = masked.text.slice(0, LONGEST_TEXT);
    const said = masked.data === undefined ? {} : { data: masked.data };
    log.write({
      ts: new Date().toISOString(),
      level,
      tool,
      ...(callId === undefined ? {} : { callId }),
      message,
      ...said,
    });
    return { level, text: message, ...said };
  }

  close(): void {
    for (const log of this.#logs.values()) log.close();
    this.#logs.clear();
  }
}
