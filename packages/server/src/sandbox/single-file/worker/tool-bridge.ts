import type { ThrownData } from "../../thrown.ts";
import type { BusinessMatch } from "../messages.ts";
import { describeFailure } from "./plain-data.ts";

/** The object that a file exports. */
export type ToolObject = Record<string, unknown>;

type Mode = "execute" | "dryrun";

interface DryRunOutcome {
  readonly success: boolean;
  readonly result?: unknown;
  readonly error?: string;
}

const matches = new WeakMap<object, BusinessMatch>();

/** The entry of `getBridgeErrors` that matches an error of a bridge. */
export function bridgeMatchOf(thrown: unknown): BusinessMatch | undefined {
  return typeof thrown === "object" && thrown !== null ? matches.get(thrown) : undefined;
}

/**
 * `this.api.bridge`: every operation that reaches outside has a `real` and a `mock` function. A dry run uses the mocks,
 * so that the tool's own logic can be tried without consequences.
 */
export class ToolBridge {
  readonly #tool: ToolObject;
  readonly #api: () => unknown;
  readonly #currentCall: () => object | undefined;
  /** A call that changes the mode changes it only for itself, because the worker has other calls. */
  readonly #modes = new WeakMap<object, Mode>();
  /** The mode of all other calls; `init` may change it. */
  #defaultMode: Mode;

  constructor(
    tool: ToolObject,
    api: () => unknown,
    currentCall: () => object | undefined,
    isDryRun: boolean,
  ) {
    this.#tool = tool;
    this.#api = api;
    this.#currentCall = currentCall;
    this.#defaultMode = isDryRun ? "dryrun" : "execute";
  }

  get isDryRun(): boolean {
    return this.mode === "dryrun";
  }

  get mode(): Mode {
    const call = this.#currentCall();
    return (call && this.#modes.get(call)) ?? this.#defaultMode;
  }

  setMode(mode: Mode): void {
    if (mode !== "execute" && mode !== "dryrun") {
      throw new TypeError(`The mode of a bridge is "execute" or "dryrun", not ${JSON.stringify(mode)}.`);
    }
    const call = this.#currentCall();
    if (call === undefined) this.#defaultMode = mode;
    else this.#modes.set(call, mode);
  }

  async execute(operation: string, args?: unknown): Promise<unknown> {
    return this.#run(operation, args, this.isDryRun ? "mock" : "real");
  }

  /** Runs the mock. Default arguments: those of the tool's `getMockArgs`. */
  async dryRun(operation: string, args?: unknown): Promise<unknown> {
    return this.#run(operation, args ?? (await this.getMockArgs(operation)), "mock");
  }

  async dryRunAll(): Promise<Record<string, DryRunOutcome>> {
    const outcomes: Record<string, DryRunOutcome> = {};
    for (const operation of Object.keys(await this.#bridges())) {
      try {
        outcomes[operation] = { success: true, result: await this.dryRun(operation) };
      } catch (thrown) {
        outcomes[operation] = { success: false, error: describeFailure(thrown).message };
      }
    }
    return outcomes;
  }

  async getMockArgs(operation: string): Promise<unknown> {
    const { getMockArgs } = this.#tool;
    return typeof getMockArgs === "function" ? ((await getMockArgs.call(this.#tool, operation)) ?? {}) : {};
  }

  async getBridgeErrors(): Promise<unknown> {
    const { getBridgeErrors } = this.#tool;
    return typeof getBridgeErrors === "function" ? getBridgeErrors.call(this.#tool) : {};
  }

  async #run(operation: string, args: unknown, side: "real" | "mock"): Promise<unknown> {
    const bridges = await this.#bridges();
    const bridge = bridges[operation];
    const run = bridge?.[side];
    if (typeof run !== "function") {
      const known = Object.keys(bridges).join(", ") || "none";
      throw new Error(
        bridge === undefined
          ? `There is no bridge "${operation}". getBridges() has: ${known}.`
          : `The bridge "${operation}" has no ${side}. Add a function ${side}(args, api) to it in getBridges().`,
      );
    }
    try {
      return await run.call(this.#tool, args, this.#api());
    } catch (thrown) {
      await this.#rememberMatch(operation, thrown);
      throw thrown;
    }
  }

  /** Remembers the tool's own description of a failure of this operation. */
  async #rememberMatch(operation: string, thrown: unknown): Promise<void> {
    if (typeof thrown !== "object" || thrown === null) return;
    const all = await this.getBridgeErrors();
    const entries = isRecord(all) ? all[operation] : all;
    const match = matchError(entries, thrown, describeFailure(thrown));
    if (match !== undefined) matches.set(thrown, match);
  }

  async #bridges(): Promise<Record<string, Record<string, unknown>>> {
    const { getBridges } = this.#tool;
    const bridges = typeof getBridges === "function" ? await getBridges.call(this.#tool) : undefined;
    // The tool's own object; a missing function is reported when it is used.
    return (bridges ?? {}) as Record<string, Record<string, unknown>>;
  }
}

/** The first entry that matches what was thrown, by its message, code or name. */
export function matchError(
  entries: unknown,
  thrown: unknown,
  described: ThrownData,
): BusinessMatch | undefined {
  if (!Array.isArray(entries)) return undefined;
  const { message, code, name } = described;
  const texts = [message, ...(code === undefined ? [] : [String(code)]), name];
  const found = entries.find((entry) => isRecord(entry) && fits(entry, texts, thrown));
  return found === undefined ? undefined : toMatch(found);
}

function fits({ match, code }: Record<string, unknown>, texts: readonly string[], thrown: unknown): boolean {
  if (match === undefined) return typeof code === "string" && texts.includes(code);
  return [match].flat().some((one) => fitsOne(one, texts, thrown));
}

function fitsOne(match: unknown, texts: readonly string[], thrown: unknown): boolean {
  try {
    if (typeof match === "string") return match !== "" && texts.some((text) => text.includes(match));
    if (typeof match === "function") return Boolean(match(thrown));
    if (!isRegExp(match)) return false;
    return texts.some((text) => {
      match.lastIndex = 0; // With the flag `g` it would continue after the last match.
      return match.test(text);
    });
  } catch {
    return false; // A failing matcher must not hide the original error.
  }
}

function toMatch(entry: Record<string, unknown>): BusinessMatch {
  const { code, description, solution, retryable } = entry;
  return {
    code: typeof code === "string" && code !== "" ? code : "BUSINESS_ERROR",
    ...(typeof description === "string" ? { description } : {}),
    ...(typeof solution === "string" ? { solution } : {}),
    retryable: retryable === true,
  };
}

export function isRegExp(value: unknown): value is RegExp {
  return Object.prototype.toString.call(value) === "[object RegExp]";
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
