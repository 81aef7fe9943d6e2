import { join } from "node:path";
import {
  BusinessError,
  InvalidArgumentError,
  type ProgressUpdate,
  redact,
  type ToolContext,
  type ToolError,
  ToolExecutionError,
  type ToolInfo,
  type ToolResult,
} from "@toolrack/core";
import { CallLog, type CallLogOptions } from "../../calls/index.ts";
import type { StackMapper } from "../../helpers/index.ts";
import type { ProgramResult } from "../sandbox.ts";
import type { KeptItems } from "./kept-items.ts";
import type { BusinessMatch, LogLine, StorageChange, ThrownData } from "./messages.ts";

/** What a call's worker may have of the host. */
export interface CallHostParts {
  readonly tool: string;
  readonly items: KeptItems;
  readonly isDryRun: boolean;
  /** Whether it may call a tool outside the sandbox. */
  readonly isCallable: (tool: ToolInfo) => boolean;
  /** Names that the tool's schema declares. */
  readonly variables: readonly string[];
  readonly setVariable: (name: string, value: string | undefined) => Promise<void>;
  readonly runProgram: (
    command: string,
    args: readonly string[],
    options: ProgramOptions,
  ) => Promise<ProgramResult>;
  readonly log: (line: LogLine) => void;
}

export interface ProgramOptions {
  readonly input: string;
  readonly timeoutMs: number;
  readonly environment: Readonly<Record<string, string>>;
}

const PROGRAM_TIMEOUT = 30_000;
/** A program that would run longer is ended with its call. */
const LONGEST_TIMEOUT = 24 * 60 * 60_000;

/** Answers what the worker of one call asks for and reports. All that comes in is data of unreviewed code. */
export class CallHost {
  readonly #context: ToolContext<never>;
  readonly #parts: CallHostParts;

  constructor(context: ToolContext<never>, parts: CallHostParts) {
    this.#context = context;
    this.#parts = parts;
  }

  readonly onRequest = async (method: string, params: unknown): Promise<unknown> => {
    const given = asRecord(params);
    switch (method) {
      case "callTool":
        return this.#callTool(textOf(given.id, "the name of a tool"), given.params);
      case "execute":
        return this.#execute(given);
      case "storage.read":
        return this.#parts.items.snapshot();
      case "storage.settle":
        return this.#parts.items.settle(Number(given.version), Number(given.changes));
      case "environment.set":
        return this.#setVariable(given.name, textOf(given.value, "a value"));
      case "environment.remove":
        return this.#setVariable(given.name, undefined);
      default:
        throw new Error(`The host has no "${method}".`);
    }
  };

  readonly onNotify = (method: string, params: unknown): void => {
    const given = asRecord(params);
    if (method === "log") this.#parts.log(toLogLine(given));
    if (method === "progress") this.#context.progress(toProgress(given));
    if (method === "storage" && !this.#parts.isDryRun) {
      const change = toChange(given);
      if (change !== undefined) this.#parts.items.apply(change);
    }
  };

  /** A chained call through the one pipeline, with what the caller holds and never more. */
  async #callTool(name: string, params: unknown): Promise<unknown> {
    const { tool, isCallable, isDryRun } = this.#parts;
    const wanted = this.#context.registry.get(name);
    const isSandboxed = wanted?.metadata.singleFile !== undefined;
    if (wanted !== undefined && !isSandboxed) {
      if (isDryRun) {
        throw new Error(`The tool "${name}" was not called: it has no dry run, and this is one.`);
      }
      if (!isCallable(wanted)) {
        throw Object.assign(
          new Error(
            `The tool "${name}" runs outside the sandbox, and "${tool}" was not granted to call it. ` +
              `The operator can grant it in the config: sandbox: { grants: { "${tool}": { tools: ["${wanted.name}"] } } }.`,
          ),
          { code: "TOOL_NOT_GRANTED" },
        );
      }
    }
    return returnedBy(await this.#context.call(name, params ?? {}));
  }

  async #execute({ command, args, options }: Record<string, unknown>): Promise<unknown> {
    const { input, timeout, env } = asRecord(options);
    const list = Array.isArray(args) ? args.map(String) : [];
    const result = await this.#parts.runProgram(textOf(command, "a command"), list, {
      input: typeof input === "string" ? input : "",
      timeoutMs:
        typeof timeout === "number" && timeout > 0 ? Math.min(timeout, LONGEST_TIMEOUT) : PROGRAM_TIMEOUT,
      environment: Object.fromEntries(
        Object.entries(asRecord(env)).map(([name, value]) => [name, String(value)]),
      ),
    });
    const { exitCode, stdout, stderr } = result;
    return { success: exitCode === 0, exitCode, stdout, stderr };
  }

  async #setVariable(name: unknown, value: string | undefined): Promise<void> {
    const { variables, tool, setVariable, isDryRun } = this.#parts;
    const known = textOf(name, "the name of a variable");
    if (!variables.includes(known)) {
      throw new Error(
        `"${known}" is not in the environment that getSchema() of "${tool}" declares. Add it there.`,
      );
    }
    // The worker of a dry run does not ask for it by itself; what was written in its stead may.
    if (!isDryRun) await setVariable(known, value);
  }
}

/** What the other tool gave, as its own code would have returned it. */
function returnedBy({ structured, content }: ToolResult): unknown {
  return structured ?? content;
}

function toLogLine({ level, text, data }: Record<string, unknown>): LogLine {
  const known = level === "debug" || level === "warn" || level === "error" ? level : "info";
  return { level: known, text: String(text ?? ""), ...(data === undefined ? {} : { data }) };
}

function toProgress({ progress, total, message }: Record<string, unknown>): ProgressUpdate {
  return {
    progress: typeof progress === "number" ? progress : 0,
    ...(typeof total === "number" ? { total } : {}),
    ...(typeof message === "string" ? { message } : {}),
  };
}

function toChange({ type, key, value }: Record<string, unknown>): StorageChange | undefined {
  if (type === "clear") return { type };
  if (typeof key !== "string") return undefined;
  if (type === "remove") return { type, key };
  return type === "set" ? { type, key, value } : undefined;
}

function asRecord(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

function textOf(value: unknown, what: string): string {
  if (typeof value === "string" && value !== "") return value;
  throw new TypeError(`${what} must be a text that is not empty.`);
}

/** What a worker says how a call ended, as the result of the call or as its error. The worker is not trusted. */
export function readOutcome(outcome: unknown, tool: string, stacks: StackMapper): unknown {
  const { type, value, base64, reasons, error, business } = asRecord(outcome);
  switch (type) {
    case "value":
      return value;
    case "bytes":
      return Buffer.from(String(base64), "base64");
    case "invalid":
      throw refusedArguments(tool, Array.isArray(reasons) ? reasons.map(String) : []);
    case "error":
      throw thrownError(toThrown(error), business === undefined ? undefined : toMatch(business), stacks);
    default:
      throw new Error(`The worker of "${tool}" answered with something that is no answer.`);
  }
}

function toThrown(given: unknown): ThrownData {
  const { name, message, code, stack } = asRecord(given);
  return {
    name: text(name) ?? "Error",
    message: text(message) ?? "The tool failed without saying why.",
    ...optional({ code: text(code), stack: text(stack) }),
  };
}

function toMatch(given: unknown): BusinessMatch {
  const { code, description, solution, retryable } = asRecord(given);
  return {
    code: text(code) ?? "BUSINESS_ERROR",
    ...optional({ description: text(description), solution: text(solution) }),
    retryable: retryable === true,
  };
}

function text(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

function optional<Key extends string>(
  members: Record<Key, string | undefined>,
): Partial<Record<Key, string>> {
  const present = Object.entries(members).filter(([, value]) => value !== undefined);
  return Object.fromEntries(present) as Partial<Record<Key, string>>; // Only the keys that have a text.
}

/** What a tool threw, as the error of its call: one that its author foresaw carries the author's advice. */
export function thrownError(
  thrown: ThrownData,
  business: BusinessMatch | undefined,
  stacks: StackMapper,
): ToolError {
  const original = stacks.apply(rebuild(thrown));
  const cause = thrown.code === undefined ? {} : { causeCode: thrown.code };
  const error =
    business === undefined
      ? new ToolExecutionError(thrown.message, { cause: original, data: cause })
      : new BusinessError(businessMessage(thrown, business), {
          cause: original,
          data: { ...business, ...cause },
        });
  if (original.stack !== undefined) error.stack = original.stack;
  return error;
}

/** The tool's own `validate` said no. */
export function refusedArguments(tool: string, reasons: readonly string[]): ToolError {
  const issues = reasons.map((message) => ({ path: "", expected: "", received: "", message }));
  return new InvalidArgumentError(
    `The tool "${tool}" refused the arguments, and did not run. Correct these and call again:\n${reasons.map((reason) => `- ${reason}`).join("\n")}`,
    { data: { issues } },
  );
}

export function rebuild({ name, message, code, stack }: ThrownData): Error {
  const error = Object.assign(new Error(message), { name, ...(code === undefined ? {} : { code }) });
  error.stack = stack ?? `${name}: ${message}`;
  return error;
}

function businessMessage({ message }: ThrownData, { code, description, solution }: BusinessMatch): string {
  const what = description === undefined ? message : `${description} (${message})`;
  return [`${code}: ${what}`, solution].filter((part) => part !== undefined).join("\n");
}

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
