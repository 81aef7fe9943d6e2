import type { IncomingMessage, ServerResponse } from "node:http";
import type { CallDesk, CallRequest } from "../../../calls/call-desk.ts";
import { callerGone } from "../caller-gone.ts";
import { eventText, openEventStream } from "../events/event-stream.ts";
import { HttpError } from "../http-error.ts";
import type { Reply } from "../route.ts";
import { answerOf } from "./call-answer.ts";

interface WantedCall extends Omit<CallRequest, "signal" | "headers" | "watcher"> {
  /** It goes on when the caller leaves. */
  readonly keep?: boolean;
}

/** Makes a call for a request: as one JSON answer, or as a stream when the request accepts one. */
export async function serveCall(
  desk: CallDesk,
  { keep = false, ...call }: WantedCall,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
): Promise<Reply> {
  const gone = keep ? undefined : callerGone(incoming, outgoing);
  const signal = gone === undefined ? {} : { signal: gone.signal };
  const request = { ...call, ...signal, headers: incoming.headers };
  try {
    if (acceptsStream(incoming)) return await streamCall(desk, request, outgoing);
    return { body: answerOf(await desk.run(request), call.replayOf) };
  } finally {
    gone?.release();
  }
}

/** What the reader has not taken in yet; beyond it, states and progress are left out. */
const MOST_WAITING = 1024 * 1024;

/**
 * `state`, `progress` and `log` events while the call is under way, and one last event: `result` with what a JSON answer
 * would hold, or `error` with the envelope of the refusal.
 */
async function streamCall(desk: CallDesk, request: CallRequest, outgoing: ServerResponse): Promise<Reply> {
  const send = (event: string, data: unknown) => {
    // Nobody is there any more, and the call goes on.
    if (outgoing.destroyed) return;
    if (!outgoing.headersSent) openEventStream(outgoing);
    outgoing.write(eventText(event, data));
  };
  const sendIfTaken = (event: string, data: unknown) => {
    if (outgoing.writableLength < MOST_WAITING) send(event, data);
  };
  // Most refusals come at once. Until one could have come the stream stays shut, so that it gets its own status.
  let opening: NodeJS.Immediate | undefined;
  const watcher: CallRequest["watcher"] = {
    state(state) {
      clearImmediate(opening);
      if (state.status === "pending") opening = setImmediate(sendIfTaken, "state", state);
      if (state.status === "running") sendIfTaken("state", state);
    },
    progress: (update) => sendIfTaken("progress", update),
    log: ({ at, level, text }) => sendIfTaken("log", { at, level, text }),
  };
  try {
    send("result", answerOf(await desk.run({ ...request, watcher }), request.replayOf));
  } catch (thrown) {
    const refusal = HttpError.from(thrown);
    if (!outgoing.headersSent || refusal === undefined) throw thrown;
    send("error", refusal.toEnvelope());
  }
  outgoing.end();
  return "sent";
}

function acceptsStream({ headers }: IncomingMessage): boolean {
  return /\btext\/event-stream\b/i.test(headers.accept ?? "");
}
