/** What a caller can be asked while its call runs, by the names that MCP gives these questions. */
export type ClientMethod = "elicitation/create" | "sampling/createMessage" | "roots/list";

/** Whoever made a call, as far as it can be spoken to while the call runs. */
export interface CallClient {
  /** What the caller says that it is: `Cursor 2.4`. Not to be trusted. */
  readonly name?: string;
  /** From which level on it wants to hear what is logged, as MCP names the levels. Undefined when it has not said. */
  readonly logLevel?: string | undefined;
  /** With `params`: whether it can be asked this very question, such as one of a certain `mode`. */
  can(method: ClientMethod, params?: object): boolean;
  /** Resolves with the caller's answer; rejects when it has none, or when the signal aborts. */
  request(method: ClientMethod, params: object, signal: AbortSignal): Promise<unknown>;
  /** Tells the caller something that needs no answer, such as a line of a log. Never throws. */
  notify(method: string, params: object): void;
}

/** The same as a tool has it at hand. */
export interface ToolClient extends CallClient {
  /** Without `params` there are none; without a signal the question is withdrawn when the call ends. */
  request(method: ClientMethod, params?: object, signal?: AbortSignal): Promise<unknown>;
}

/** A question to the person at the other end, with the values that are wanted from them. */
export interface ElicitRequest {
  readonly message: string;
  /** A flat JSON Schema of what is wanted: texts, numbers, booleans and choices. */
  readonly schema?: object;
}

export interface ElicitAnswer {
  readonly action: "accept" | "decline" | "cancel";
  /** What was entered, when the action is `accept`. */
  readonly content?: Readonly<Record<string, unknown>>;
}
