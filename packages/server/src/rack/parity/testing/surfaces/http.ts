import { StreamReader } from "../../../../http/server.fixture.ts";
import type { ParityRack } from "../parity-rack.ts";
import type { Answer } from "../sample-call.ts";
import { answerOfResult, type Surface } from "../surface.ts";

/** Makes calls with `POST /api/tools/{name}/calls`. Asks for a stream when progress is expected, else for JSON. */
export function http({ post, untilRunning }: ParityRack): Surface {
  return {
    name: "HTTP",
    caller: "http",
    lacks: {},
    async make({ tool, args, isCancelled, answer: expected }, session) {
      const leaving = new AbortController();
      if (isCancelled) void untilRunning(session).then(() => leaving.abort());
      const asking = post(
        `/api/tools/${tool}/calls`,
        { arguments: args, sessionID: session },
        { accept: expected.progress === undefined ? "application/json" : "text/event-stream" },
        leaving.signal,
      );
      if (isCancelled) {
        await asking.catch(() => {});
        return {};
      }
      const response = await asking;
      if (expected.progress !== undefined) return { answer: await streamed(response) };
      const { result, error } = JSON.parse(await response.text());
      // For a call that never ran, the server returns only the refusal.
      if (error !== undefined) return { answer: { text: error.message, isError: true, code: error.code } };
      return { answer: answerOfResult(result) };
    },
  };
}

async function streamed(response: Response): Promise<Answer> {
  const events = await new StreamReader(response).all();
  const progress = events
    .filter(({ event }) => event === "progress")
    .map(({ data }): [number, number, string] => [data.progress, data.total, data.message]);
  return { ...answerOfResult(events.at(-1)?.data.result), progress };
}
