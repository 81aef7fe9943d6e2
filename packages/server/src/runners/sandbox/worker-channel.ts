import type { Socket } from "node:net";
import { LineReader } from "./line-reader.ts";
import type { HostMessage, WorkerMessage } from "./messages.ts";
import { readWorkerMessage } from "./read-worker-message.ts";

export interface ChannelEvents {
  onMessage(message: WorkerMessage, bytes: number): void;
  /** The worker sent what is no message. Nothing that comes after it is of use. */
  onNonsense(why: string): void;
  onTooLong(): void;
}

/** The messages between a worker and its host. */
export class WorkerChannel {
  /** Of one message, in bytes. */
  longest: number;
  readonly #socket: Socket;
  #outgoing = "";

  constructor(socket: Socket, longest: number, events: ChannelEvents) {
    this.#socket = socket;
    this.longest = longest;
    const reader = new LineReader((line, bytes) => receive(line, bytes, events), events.onTooLong);
    socket.on("data", (chunk: Buffer) => reader.push(chunk, this.longest));
    // A worker that has gone is noticed by the end of its process.
    socket.on("error", () => {});
  }

  /** Throws when the message is not JSON. Everything sent in one turn leaves in one write. */
  send(message: HostMessage): void {
    const line = `${JSON.stringify(message)}\n`;
    if (this.#outgoing === "") queueMicrotask(() => this.#flush());
    this.#outgoing += line;
  }

  #flush(): void {
    const text = this.#outgoing;
    this.#outgoing = "";
    if (this.#socket.writable) this.#socket.write(text);
  }
}

function receive(line: string, bytes: number, events: ChannelEvents): void {
  let message: WorkerMessage;
  try {
    message = readWorkerMessage(line);
  } catch (error) {
    events.onNonsense(error instanceof Error ? error.message : String(error));
    return;
  }
  events.onMessage(message, bytes);
}
