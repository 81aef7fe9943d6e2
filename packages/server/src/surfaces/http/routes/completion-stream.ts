import type { ServerResponse } from "node:http";
import { v7 as uuid } from "uuid";
import { offersFunctions } from "../../chat/completion-functions.ts";
import { type CompletionRequest, wantsJson } from "../../chat/completion-request.ts";
import type { Completion } from "../../chat/completion-service.ts";
import { answerText, ChunkMaker, finishReason, separator } from "../../chat/completion-shape.ts";
import { textOfParts } from "../../chat/turn/message-part.ts";
import type { TurnEvent } from "../../chat/turn/turn-event.ts";
import { openEventStream } from "../events/event-stream.ts";
import { jsonText } from "../json-text.ts";
import type { Reply } from "../route.ts";
import { errorOfEnd } from "./chat-errors.ts";

/** What a reader has not taken in yet. One that leaves more is cut off, which ends the model's answer too. */
const MOST_WAITING = 8 * 1024 * 1024;

/**
 * Writes what happens as chunks. It opens with the first of them, or with the first call, so that an early failure gets
 * a status of its own.
 */
export class CompletionStream {
  readonly #outgoing: ServerResponse;
  readonly #chunks: ChunkMaker;
  readonly #tellsEvents: boolean;
  readonly #isJson: boolean;
  readonly #isFunctions: boolean;
  readonly #wantsUsage: boolean;
  /** The end of it. */
  #said = "";
  #isNewRound = false;

  constructor(outgoing: ServerResponse, body: CompletionRequest, model: string, tellsEvents: boolean) {
    this.#outgoing = outgoing;
    this.#chunks = new ChunkMaker(`chatcmpl-${uuid().replaceAll("-", "")}`, model);
    this.#tellsEvents = tellsEvents;
    this.#isJson = wantsJson(body);
    this.#isFunctions = offersFunctions(body);
    this.#wantsUsage = body.stream_options?.include_usage === true;
  }

  readonly tell = (event: TurnEvent): void => {
    // Whether a text is the last is known at the end.
    if (event.type === "text") this.#isJson || this.#text(event.text, event.logprobs);
    else if (event.type === "reasoning") this.#delta({ reasoning_content: event.text });
    else if (event.type === "refusal") this.#delta({ refusal: event.text });
    else if (this.#tellsEvents) this.#write(this.#chunks.event(event));
    if (event.type !== "call") return;
    this.#isNewRound = true;
    this.#open();
  };

  readonly keepAlive = (): void => {
    this.#open();
    this.#send(": alive\n\n");
  };

  /** `isTold`: what happened was told as it happened. */
  end(completion: Completion, isTold: boolean): Reply {
    const { end, calls, usage, facts } = completion;
    const error = errorOfEnd(end);
    if (error !== undefined) {
      if (!this.#outgoing.headersSent) throw error;
      this.#write(error.toEnvelope());
    } else {
      this.#rest(completion, isTold);
      const form = { isJson: this.#isJson, isFunctions: this.#isFunctions };
      if (calls.length > 0) this.#write(this.#chunks.calls(calls, form));
      if (this.#tellsEvents) this.#write(this.#chunks.event({ type: "end", end }));
      const { logprobs: _logprobs, annotations, ...more } = facts;
      const last = annotations === undefined ? {} : { annotations };
      this.#write({ ...this.#chunks.delta(last, finishReason(end, form)), ...more });
      if (this.#wantsUsage) this.#write(this.#chunks.usage(usage));
    }
    this.#outgoing.end("data: [DONE]\n\n");
    return "sent";
  }

  #rest({ parts }: Completion, isTold: boolean): void {
    if (!isTold) {
      const reasoning = textOfParts(parts, "reasoning");
      const refusal = textOfParts(parts, "refusal");
      if (reasoning !== "") this.#delta({ reasoning_content: reasoning });
      if (refusal !== "") this.#delta({ refusal });
    }
    const text = isTold && !this.#isJson ? "" : answerText(parts, this.#isJson);
    if (text !== "") this.#delta({ content: text });
  }

  #text(text: string, logprobs: unknown): void {
    const between = this.#isNewRound ? separator(this.#said) : "";
    this.#isNewRound = false;
    this.#said = (this.#said + between + text).slice(-2);
    this.#delta({ content: between + text }, logprobs);
  }

  #delta(delta: Readonly<Record<string, unknown>>, logprobs?: unknown): void {
    this.#write(this.#chunks.delta(delta, null, logprobs));
  }

  #open(): void {
    if (this.#outgoing.headersSent) return;
    openEventStream(this.#outgoing);
    this.#outgoing.write(dataOf(this.#chunks.delta({ role: "assistant", content: "" })));
  }

  #write(chunk: unknown): void {
    this.#open();
    this.#send(dataOf(chunk));
  }

  #send(text: string): void {
    if (this.#outgoing.destroyed) return;
    this.#outgoing.write(text);
    if (this.#outgoing.writableLength > MOST_WAITING) this.#outgoing.destroy();
  }
}

function dataOf(value: unknown): string {
  return `data: ${jsonText(value)}\n\n`;
}
