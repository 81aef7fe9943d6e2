import type { ServerResponse } from "node:http";
import { jsonText } from "./bodies.ts";

export function openEventStream(outgoing: ServerResponse): void {
  // Proxies that gather an answer before they pass it on would make a stream useless.
  outgoing.writeHead(200, { "Content-Type": "text/event-stream; charset=utf-8", "X-Accel-Buffering": "no" });
  outgoing.flushHeaders();
}

/** One event as the stream carries it. JSON holds no line breaks, so the data is one line. */
export function eventText(event: string, data: unknown, id?: string): string {
  const named = id === undefined ? "" : `id: ${id}\n`;
  return `${named}event: ${event}\ndata: ${jsonText(data)}\n\n`;
}
