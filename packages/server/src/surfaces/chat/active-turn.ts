import type { ChatMessage } from "../../store/chat/chat-store.ts";
import type { MessagePart } from "./turn/message-part.ts";
import { TurnFeed } from "./turn/turn-feed.ts";

/** A turn of a session, while it lasts and for a while afterwards. */
export class ActiveTurn {
  /** The message that it makes. */
  readonly message: ChatMessage;
  /** What the message has so far. */
  readonly parts: MessagePart[];
  readonly feed = new TurnFeed();
  readonly stopping = new AbortController();
  readonly leaving = new AbortController();
  readonly #done = Promise.withResolvers<ChatMessage>();
  #isDone = false;
  #stopMessage: string | undefined;

  constructor(message: ChatMessage, parts: MessagePart[]) {
    this.message = message;
    this.parts = parts;
  }

  get isDone(): boolean {
    return this.#isDone;
  }

  /** The message as it was when the turn had ended. Never rejects. */
  get done(): Promise<ChatMessage> {
    return this.#done.promise;
  }

  /** For people, where it was stopped by something other than one of them. */
  get stopMessage(): string | undefined {
    return this.#stopMessage;
  }

  /** Ends it: the model's answer and its calls. */
  stop(message?: string): void {
    if (!this.stopping.signal.aborted) this.#stopMessage = message;
    this.stopping.abort(message ?? "a person stopped the turn");
  }

  finish(message: ChatMessage): void {
    this.#isDone = true;
    this.#done.resolve(message);
  }
}
