import { onScopeDispose } from "vue";
import { EventStream, type RackEvent } from "./event-stream.ts";

/** The console's connection. There is one, whatever is on the screen. */
export const eventStream = new EventStream();

/** Hears of events whose type begins with one of the given texts, and of `reset`, for as long as the page lives. */
export function useEvents(prefixes: readonly string[], listener: (event: RackEvent) => void): void {
  const stop = eventStream.subscribe((event) => {
    if (event.type === "reset" || prefixes.some((prefix) => event.type.startsWith(prefix))) listener(event);
  });
  onScopeDispose(stop);
}
