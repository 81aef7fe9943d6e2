import type { Serving } from "../../../serve.ts";
import type { ParityRack } from "../parity-rack.ts";
import { answerOfResult, type Surface } from "../surface.ts";

/** Makes calls through another rack, for which this rack is an API that its own `/openapi.json` describes. */
export function otherRack(other: Serving, { untilRunning }: ParityRack): Surface {
  return {
    name: "another rack",
    caller: "http",
    lacks: { progress: "An API answers once, at the end." },
    async make({ tool, args, isCancelled }, session) {
      const leaving = new AbortController();
      if (isCancelled) void untilRunning(session).then(() => leaving.abort());
      const input = { name: tool, body: { arguments: args, sessionID: session } };
      const asking = fetch(`${other.url}/api/tools/api_far_callTool/calls`, {
        method: "POST",
        headers: { authorization: `Bearer ${other.token}`, "content-type": "application/json" },
        body: JSON.stringify({ arguments: input }),
        signal: leaving.signal,
      });
      if (isCancelled) {
        await asking.catch(() => {});
        return {};
      }
      const { result } = JSON.parse(await (await asking).text());
      if (result.type !== "error") return { answer: answerOfResult(result.structured.result) };
      // For a call that never ran, the API's words are followed by what it sent, and by advice.
      const { error } = JSON.parse(/\((\{.*\})\)[^)]*$/s.exec(result.content)?.[1] ?? "{}");
      return { answer: { text: error.message, isError: true, code: error.code } };
    },
  };
}
