import { createParser, type EventSourceMessage } from "eventsource-parser";
import { onScopeDispose, ref } from "vue";
import { isRecord } from "../text/index.ts";
import { ApiError } from "./api-error.ts";
import { open } from "./request.ts";

/** Reads server-sent events. */
export async function* readEvents(
  body: ReadableStream<Uint8Array>,
  onBytes?: () => void,
): AsyncGenerator<EventSourceMessage, void, void> {
  const read: EventSourceMessage[] = [];
  const parser = createParser({ onEvent: (event) => read.push(event) });
  const decoder = new TextDecoder();
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      onBytes?.();
      parser.feed(decoder.decode(value, { stream: true }));
      yield* read.splice(0);
    }
  } finally {
    // Closes the connection when the reader stops early.
    await reader.cancel().catch(() => {});
  }
}

export type StreamState = "connecting" | "open" | "waiting" | "closed";

/** An event of the rack. `reset`: events were missed, so lists must be read again. */
export interface RackEvent {
  readonly type: string;
  readonly data: Readonly<Record<string, unknown>>;
}

const FIRST_WAIT = 500;
const LONGEST_WAIT = 15_000;
/** The server sends a heartbeat every 15 seconds; a longer silence means that the connection is dead. */
const LONGEST_SILENCE = 40_000;

type Listener = (event: RackEvent) => void;

/** The one connection for events. It resumes where it broke off; `reset` tells listeners that events were lost. */
export class EventStream {
  readonly state = ref<StreamState>("closed");
  readonly retryAt = ref(0);
  readonly #listeners = new Set<Listener>();
  #lastId: string | undefined;
  /** Whether there was a connection before, even one that ended before its first event id. */
  #hasBegun = false;
  #run: AbortController | undefined;
  #wake: (() => void) | undefined;

  subscribe(listener: Listener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  start(): void {
    if (this.#run !== undefined) return;
    this.#run = new AbortController();
    void this.#keepOpen(this.#run.signal);
  }

  /** Ends the connection and forgets the last event, so that the next connection does not resume after it. */
  stop(): void {
    this.pause();
    this.#lastId = undefined;
    this.#hasBegun = false;
  }

  /** Ends the connection. The next connection resumes after the last event. */
  pause(): void {
    this.#run?.abort();
    this.#run = undefined;
    this.#wake?.();
    this.state.value = "closed";
  }

  retryNow(): void {
    this.#wake?.();
  }

  async #keepOpen(signal: AbortSignal): Promise<void> {
    let wait = FIRST_WAIT;
    while (!signal.aborted) {
      this.state.value = "connecting";
      const opened = await this.#read(signal);
      if (signal.aborted) return;
      wait = opened ? FIRST_WAIT : Math.min(wait * 2, LONGEST_WAIT);
      this.state.value = "waiting";
      // Random, so that many consoles do not reconnect in the same instant.
      await this.#sleep(wait * (0.75 + Math.random() / 2));
    }
  }

  /** Reads until the connection ends. Returns whether there was a connection. */
  async #read(outer: AbortSignal): Promise<boolean> {
    const attempt = new AbortController();
    const signal = AbortSignal.any([outer, attempt.signal]);
    let watch: ReturnType<typeof setTimeout> | undefined;
    const stillAlive = () => {
      clearTimeout(watch);
      watch = setTimeout(() => attempt.abort(), LONGEST_SILENCE);
    };
    const isResumed = this.#hasBegun;
    let opened = false;
    try {
      stillAlive();
      const response = await open("GET /api/events", { signal, headers: resumeAfter(this.#lastId) });
      opened = true;
      this.#hasBegun = true;
      this.state.value = "open";
      if (response.body === null) return true;
      for await (const { event = "", id, data } of readEvents(response.body, stillAlive)) {
        if (id !== undefined) this.#lastId = id;
        // The server sends `ready` to a connection that named no last event. If we were connected before,
        // events may be lost.
        if (event === "ready" && !isResumed) continue;
        const rackEvent = { type: event === "ready" ? "reset" : event, data: dataOf(data) };
        for (const listener of this.#listeners) listener(rackEvent);
      }
    } catch (thrown) {
      if (thrown instanceof ApiError && thrown.status === 401) this.pause();
    } finally {
      clearTimeout(watch);
    }
    return opened;
  }

  #sleep(milliseconds: number): Promise<void> {
    this.retryAt.value = Date.now() + milliseconds;
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, milliseconds);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

export function resumeAfter(lastId: string | undefined): Record<string, string> {
  return lastId === undefined ? {} : { "last-event-id": lastId };
}

/** The data of every event is an object; anything else is ignored. */
function dataOf(text: string): RackEvent["data"] {
  const value: unknown = JSON.parse(text);
  return isRecord(value) ? value : {};
}

export const eventStream = new EventStream();

/**
 * Subscribes a component, for its life, to `reset` and to events whose type begins with one of the prefixes.
 */
export function useEvents(prefixes: readonly string[], listener: (event: RackEvent) => void): void {
  const stop = eventStream.subscribe((event) => {
    if (event.type === "reset" || prefixes.some((prefix) => event.type.startsWith(prefix))) listener(event);
  });
  onScopeDispose(stop);
}
