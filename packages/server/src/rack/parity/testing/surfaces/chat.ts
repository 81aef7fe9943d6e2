import type { ParityRack } from "../parity-rack.ts";
import { bytesOf, type Surface } from "../surface.ts";

/** The fields of Toolrack's events in the chat stream that this surface reads. */
interface ToldEvent {
  readonly type: string;
  readonly callId?: string;
  readonly state?: { readonly status: string };
  readonly update?: { readonly progress: number; readonly total?: number; readonly message?: string };
}

const unwritten = "A model reads text; what else there is goes into it, or beside it as an image.";

/** Lets a model make calls, with `POST /v1/chat/completions`. The answer is what the model is told. */
export function chat({ post, model }: ParityRack): Surface {
  return {
    name: "chat",
    caller: "http",
    lacks: { code: unwritten, structured: unwritten },
    async make(call, session) {
      const body = {
        model: "scripted",
        stream: true,
        messages: [{ role: "user", content: session }],
        toolrack: { events: true },
      };
      model.expect(session, call);
      const leaving = new AbortController();
      const response = await post("/v1/chat/completions", body, {}, leaving.signal);
      const events: ToldEvent[] = [];
      try {
        for await (const event of eventsIn(response)) {
          events.push(event);
          if (call.isCancelled && event.state?.status === "running") leaving.abort();
        }
      } catch (thrown) {
        if (!leaving.signal.aborted) throw thrown;
      }
      const callId = events.find(({ type }) => type === "call")?.callId;
      if (callId === undefined) throw new Error(`The model made no call: ${JSON.stringify(events)}`);
      if (call.isCancelled) return { callId };
      const progress = events.flatMap(({ update }): [number, number?, string?][] =>
        update === undefined ? [] : [[update.progress, update.total, update.message]],
      );
      const states = events.filter(({ type }) => type === "state").map(({ state }) => state?.status);
      const { text, urls } = model.told(session);
      return {
        callId,
        answer: {
          text,
          isError: states.at(-1) === "error",
          ...(urls.length === 0 ? {} : { images: urls.map(bytesOf) }),
          ...(progress.length === 0 ? {} : { progress }),
        },
      };
    },
  };
}

async function* eventsIn(response: Response): AsyncGenerator<ToldEvent> {
  let rest = "";
  for await (const text of response.body!.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      if (!line.startsWith("data: {")) continue;
      const { toolrack, error } = JSON.parse(line.slice("data: ".length));
      if (error !== undefined) throw new Error(JSON.stringify(error));
      if (toolrack !== undefined) yield toolrack;
    }
  }
}
