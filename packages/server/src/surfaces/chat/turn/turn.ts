import type { ModelUsage } from "../model/completion-chunk.ts";
import type { ModelEndpoint } from "../model/endpoint.ts";
import type { ModelMessage, ModelTool } from "../model/model-message.ts";
import type { ChatReach } from "../tools/reach.ts";
import type { OfferedTools } from "../tools/tools-service.ts";
import type { MessagePart } from "./message-part.ts";
import type { TurnEvent } from "./turn-event.ts";

export interface TurnLimits {
  readonly maxRounds: number;
  readonly maxSeconds: number;
  readonly maxTokens: number;
  /** Characters of one answer of the model. */
  readonly maxAnswer: number;
}

/** All that the loop between a model and the rack is given: from one message of a person to the end of the answer. */
export interface Turn {
  readonly id: string;
  readonly sessionID: string;
  readonly reach: ChatReach;
  readonly endpoint: ModelEndpoint;
  /** What the model is told before the turn. */
  readonly history: readonly ModelMessage[];
  /** What else is said to the provider, such as `temperature`. */
  readonly body: Readonly<Record<string, unknown>>;
  readonly offered: OfferedTools;
  /** Tools that the client runs itself. */
  readonly clientTools: readonly ModelTool[];
  /** The turn as it is so far. The loop adds to it. */
  readonly parts: MessagePart[];
  readonly limits: TurnLimits;
  /** Tokens that the turn took before it was taken up again. */
  readonly usage?: ModelUsage | undefined;
  /** Tokens that the model can read at a time. */
  readonly contextTokens: number;
  /** The calls whose results were taken out of the history before, by the model's ids. */
  readonly compacted?: Iterable<string>;
  /** The rack's id of a call in the history, by the model's. */
  readonly callIdOf?: (toolCallId: string) => string | undefined;
  /** Ends the turn and cancels its calls. */
  readonly signal: AbortSignal;
  /** The server ends: the turn is left as it is, and its calls too. */
  readonly leaving: AbortSignal;
  /** What carries a trace on. */
  readonly headers?: Readonly<Record<string, string | string[] | undefined>>;
  readonly emit: (event: TurnEvent) => void;
  /** Keeps the parts, or only waits. Awaited before a call is made, so that what may have happened is known afterwards. */
  readonly save?: () => Promise<void>;
}
