import type { ParityRack } from "../parity-rack.ts";
import type { Surface } from "../surface.ts";

const onlyText = "A message with the role `tool` has a text and nothing else.";

/** Makes calls with `POST /openai/tool-calls`. */
export function openaiCalls({ post, untilRunning }: ParityRack): Surface {
  return {
    name: "OpenAI calls",
    caller: "http",
    lacks: {
      isError: onlyText,
      code: onlyText,
      structured: onlyText,
      images: onlyText,
      progress: "All messages come at once, at the end.",
    },
    async make({ tool, args, isCancelled }, session) {
      const leaving = new AbortController();
      if (isCancelled) void untilRunning(session).then(() => leaving.abort());
      const text = typeof args === "string" ? args : JSON.stringify(args);
      const call = { id: "one", type: "function", function: { name: tool, arguments: text } };
      const path = `/openai/tool-calls?sessionID=${encodeURIComponent(session)}`;
      const asking = post(path, { role: "assistant", tool_calls: [call] }, {}, leaving.signal);
      if (isCancelled) {
        await asking.catch(() => {});
        return {};
      }
      const messages = JSON.parse(await (await asking).text());
      const { content, ...rest } = messages[0];
      if (messages.length !== 1 || rest.role !== "tool" || rest.tool_call_id !== "one" || rest.name !== tool)
        throw new Error(`Not the answer to the call: ${JSON.stringify(messages)}`);
      return { answer: { text: content } };
    },
  };
}
