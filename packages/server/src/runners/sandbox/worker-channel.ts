import type { Socket } from "node:net";
import { LineSplitter } from "../../text/line-splitter.ts";
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
  readonly #socket: Socket;
  readonly #lines: LineSplitter;
  #outgoing = "";

  constructor(socket: Socket, longest: number, events: ChannelEvents) {
    this.#socket = socket;
    this.#lines = new LineSplitter(longest, {
      onLine: (line, bytes) => receive(line, bytes, events),
      onTooLong: events.onTooLong,
    });
    socket.on("data", (chunk: Buffer) => this.#read(chunk, events));
    // A worker that has gone is noticed by the end of its process.
    socket.on("error", () => {});
  }

  /** Of one message, in bytes. */
  set longest(bytes: number) {
    this.#lines.longest = bytes;
  }

  /** Throws when the message is not JSON. Everything sent in one turn leaves in one write. */
  send(message: HostMessage): void {
    const line = `${JSON.stringify(message)}\n`;
    if (this.#outgoing === "") queueMicrotask(() => this.#flush());
    this.#outgoing += line;
  }

  /** Nobody waits for the end of a message that is too long, which may never come. */
  #read(chunk: Buffer, events: ChannelEvents): void {
    if (this.#lines.isTooLong) return;
    this.#lines.push(chunk);
    if (this.#lines.isTooLong) events.onTooLong();
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
