import type { RegistryView } from "../registry/view.ts";
import { canonicalJson } from "../schema/canonical-json.ts";
import { hashText } from "../schema/hash.ts";
import type { AskRequest, Logger, ProgressUpdate, ToolContext } from "../tool/context.ts";
import type { ToolInfo } from "../tool/info.ts";
import type { CallFrame } from "./frame.ts";
import { ask } from "./stages/approve.ts";
import { updateState } from "./state-of.ts";

const noEnvironment: Readonly<Record<string, string>> = Object.freeze({});
const noExtra: Readonly<Record<string, unknown>> = Object.freeze({});

/**
 * The context that a tool is given. Everything is made when it is asked for: a tool that looks at its input
 * only pays for nothing else. The functions are closures, so that destructuring them works.
 */
export class FrameContext implements ToolContext {
  readonly #frame: CallFrame;
  readonly input: Record<string, unknown>;

  constructor(frame: CallFrame) {
    this.#frame = frame;
    this.input = frame.input;
  }

  get callId(): string {
    return this.#frame.callId;
  }
  get sessionID(): string {
    return this.#frame.sessionID;
  }
  get messageID(): string {
    return inherited(this.#frame, "messageID") ?? "";
  }
  get signal(): AbortSignal {
    return this.#frame.signal;
  }
  get tool(): ToolInfo {
    return this.#frame.tool.info;
  }
  get registry(): RegistryView {
    return this.#frame.host.view(this.#frame);
  }
  get caller(): string {
    return this.#frame.caller;
  }
  get env(): Readonly<Record<string, string>> {
    return this.#frame.options.env ?? noEnvironment;
  }
  get logger(): Logger {
    return inherited(this.#frame, "logger") ?? this.#frame.host.settings.logger;
  }
  get idempotencyKey(): string {
    const { sessionID, callId, input } = this.#frame;
    return hashText(`${sessionID}\n${callId}\n${this.#frame.toolName}\n${canonicalJson(input)}`);
  }

  get metadata(): ToolContext["metadata"] {
    const frame = this.#frame;
    return (update) => {
      frame.touch();
      updateState(frame, update);
    };
  }

  get progress(): ToolContext["progress"] {
    const frame = this.#frame;
    return (update, total, message) => {
      frame.touch();
      const { events } = frame.host;
      if (frame.ended || !events.wanted) return;
      events.emit({
        type: "progress",
        callId: frame.callId,
        toolName: frame.toolName,
        update: toProgress(update, total, message),
      });
    };
  }

  get call(): ToolContext["call"] {
    const frame = this.#frame;
    return (name, input, options) => frame.host.callChild(frame, name, input, options ?? noExtra);
  }

  get ask(): ToolContext["ask"] {
    const frame = this.#frame;
    return (request: string | AskRequest) =>
      typeof request === "string" ? ask(frame, request) : ask(frame, request.message, request.details);
  }

  get callID(): string {
    return this.#frame.callId;
  }
  get abort(): AbortSignal {
    return this.#frame.signal;
  }
  get agent(): string {
    return inherited(this.#frame, "agent") ?? "";
  }
  get directory(): string {
    return inherited(this.#frame, "directory") ?? "";
  }
  get worktree(): string {
    return inherited(this.#frame, "worktree") ?? this.directory;
  }
  get messages(): readonly unknown[] {
    return inherited(this.#frame, "messages") ?? [];
  }
  get extra(): Readonly<Record<string, unknown>> {
    return inherited(this.#frame, "extra") ?? noExtra;
  }
}

type Inherited = "messageID" | "logger" | "agent" | "directory" | "worktree" | "messages" | "extra";

/** A child sees what its caller was told, unless it was told something else itself. Secrets are not inherited. */
function inherited<Key extends Inherited>(frame: CallFrame, key: Key): CallFrame["options"][Key] {
  for (let at: CallFrame | undefined = frame; at !== undefined; at = at.parent) {
    const value = at.options[key];
    if (value !== undefined) return value;
  }
  return undefined;
}

function toProgress(update: ProgressUpdate | number, total?: number, message?: string): ProgressUpdate {
  if (typeof update !== "number") return update;
  return {
    progress: update,
    ...(total === undefined ? {} : { total }),
    ...(message === undefined ? {} : { message }),
  };
}
