import { isRecord } from "../../../helpers/values.ts";
import type { ThrownData } from "../../remote-error.ts";
import { type BusinessMatch, readMatch } from "../messages.ts";
import { describeFailure } from "./plain-data.ts";

/** The object that a file exports. */
export type ToolObject = Record<string, unknown>;

/** Calls a method of the tool. Resolves to undefined when the tool does not have the method. */
export async function callOptional(tool: ToolObject, name: string, ...args: unknown[]): Promise<unknown> {
  const method = tool[name];
  return typeof method === "function" ? method.apply(tool, args) : undefined;
}

type Mode = "execute" | "dryrun";

const matches = new WeakMap<object, BusinessMatch>();

/** The entry of `getBridgeErrors` that matches an error which a bridge threw; undefined when none matches. */
export function bridgeMatchOf(thrown: unknown): BusinessMatch | undefined {
  return typeof thrown === "object" && thrown !== null ? matches.get(thrown) : undefined;
}

/**
 * `this.api.bridge`: every operation that reaches outside has a `real` and a `mock` function. A dry run uses the mocks,
 * so that the tool's own logic can be tried without consequences.
 */
export class ToolBridge {
  readonly #tool: ToolObject;
  readonly #currentCall: () => object | undefined;
  /**
   * The modes that calls have set with `setMode`. Such a mode is only for the call that set it, because the
   * worker may have other calls.
   */
  readonly #modes = new WeakMap<object, Mode>();
  /** The mode of all other calls; `init` may change it. */
  #defaultMode: Mode;

  constructor(tool: ToolObject, currentCall: () => object | undefined, isDryRun: boolean) {
    this.#tool = tool;
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

  async dryRunAll(): Promise<Record<string, object>> {
    const outcomes: Record<string, object> = {};
    for (const operation of Object.keys(await this.#bridges())) {
      outcomes[operation] = await this.dryRun(operation).then(
        (result) => ({ success: true, result }),
        (thrown) => ({ success: false, error: describeFailure(thrown).message }),
      );
    }
    return outcomes;
  }

  async getMockArgs(operation: string): Promise<unknown> {
    return (await callOptional(this.#tool, "getMockArgs", operation)) ?? {};
  }

  async getBridgeErrors(): Promise<unknown> {
    return "getBridgeErrors" in this.#tool ? callOptional(this.#tool, "getBridgeErrors") : {};
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
      return await run.call(this.#tool, args, this.#tool.api);
    } catch (thrown) {
      if (typeof thrown === "object" && thrown !== null) {
        // Remembers the tool's own description of this failure, for `bridgeMatchOf`.
        const all = await this.getBridgeErrors();
        const match = matchError(isRecord(all) ? all[operation] : all, thrown, describeFailure(thrown));
        if (match !== undefined) matches.set(thrown, match);
      }
      throw thrown;
    }
  }

  async #bridges(): Promise<Record<string, Record<string, unknown>>> {
    const bridges = (await callOptional(this.#tool, "getBridges")) ?? {};
    // The tool's own object; a missing function is reported when it is used.
    return bridges as Record<string, Record<string, unknown>>;
  }
}

/**
 * The first entry whose `match` fits the message, code or name of the thrown error. An entry without `match`
 * fits when its `code` is one of these texts.
 */
export function matchError(
  entries: unknown,
  thrown: unknown,
  { message, code, name }: ThrownData,
): BusinessMatch | undefined {
  if (!Array.isArray(entries)) return undefined;
  const texts = [message, ...(code === undefined ? [] : [String(code)]), name];
  const found = entries.find((entry) => isRecord(entry) && fits(entry, texts, thrown));
  return found === undefined ? undefined : readMatch(found);
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
      match.lastIndex = 0; // With the flag `g`, `test` would continue after the last match.
      return match.test(text);
    });
  } catch {
    return false; // A failing matcher must not hide the original error.
  }
}

export function isRegExp(value: unknown): value is RegExp {
  return Object.prototype.toString.call(value) === "[object RegExp]";
}
