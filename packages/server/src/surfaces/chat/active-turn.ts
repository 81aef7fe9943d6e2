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

  /** Ends it: the model's answer and its calls. */
  stop(): void {
    this.stopping.abort("a person stopped the turn");
  }

  finish(message: ChatMessage): void {
    this.#isDone = true;
    this.#done.resolve(message);
  }
}
