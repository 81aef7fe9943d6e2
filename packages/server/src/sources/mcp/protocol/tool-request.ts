import {
  type CallClient,
  type LogLevel,
  logLine,
  type ProgressUpdate,
  type ToolContext,
  waitingForTurn,
  whenAborted,
} from "@toolrack/core";
import type { UpstreamTool } from "../catalogue/catalogue.ts";
import type { Message } from "./json-rpc.ts";
import type { LaneRequest } from "./request-lane.ts";

/** A call of a tool as a request to its server. What few requests need is made when it is asked for. */
export class ToolRequest implements LaneRequest {
  readonly method = "tools/call";
  readonly params: Message;
  readonly headers: Readonly<Record<string, string>> | undefined;
  readonly isTask: boolean;
  readonly #context: ToolContext;

  constructor(
    { name, isTask }: Pick<UpstreamTool, "name" | "isTask">,
    context: ToolContext,
    headers: Readonly<Record<string, string>> | undefined,
  ) {
    this.params = { name, arguments: context.input };
    this.headers = headers;
    this.isTask = isTask === true;
    this.#context = context;
  }

  get signal(): AbortSignal {
    return this.#context.signal;
  }

  get client(): CallClient | undefined {
    return this.#context.client;
  }

  whenAborted(act: (reason: unknown) => void): () => void {
    return whenAborted(this.#context, act);
  }

  waitingForTurn(): () => void {
    return waitingForTurn(this.#context);
  }

  onProgress(update: ProgressUpdate): void {
    this.#context.progress(update);
  }

  onLog({ level, logger, data }: Message): void {
    const name = typeof logger === "string" && logger !== "" ? [`[${logger}]`] : [];
    logLine(this.#context, levels.get(level) ?? "info", ...name, data);
  }
}

/** Those of the protocol that are not `info` here. */
const levels: ReadonlyMap<unknown, LogLevel> = new Map([
  ["debug", "debug"],
  ["warning", "warn"],
  ["error", "error"],
  ["critical", "error"],
  ["alert", "error"],
  ["emergency", "error"],
]);
