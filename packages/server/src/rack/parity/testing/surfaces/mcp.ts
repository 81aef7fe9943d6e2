import { type Client, ProtocolError } from "@modelcontextprotocol/client";
import { fromMcpResult } from "@toolrack/core";
import type { ParityRack } from "../parity-rack.ts";
import type { Answer } from "../sample-call.ts";
import { answerOfResult, type Surface, type SurfaceName } from "../surface.ts";

/** `tools/call`, by the client of the SDK. */
export function mcp(
  name: SurfaceName,
  caller: string,
  client: Client,
  { untilRunning }: ParityRack,
): Surface {
  const heard = new Map<string | number, NonNullable<Answer["progress"]>>();
  // By a handler of its own: that of the SDK forgets what is read together with the answer.
  client.setNotificationHandler("notifications/progress", ({ params }) => {
    const { progressToken, progress, total, message } = params;
    heard.set(progressToken, [...(heard.get(progressToken) ?? []), [progress, total, message]]);
  });
  return {
    name,
    caller,
    lacks: {},
    async make({ tool, args, isCancelled, answer: expected }, session) {
      const leaving = new AbortController();
      if (isCancelled) void untilRunning(session).then(() => leaving.abort("enough"));
      // Who wants to hear of progress, and may be answered with a stream, takes another path through the server.
      const isFollowed = isCancelled || expected.progress !== undefined;
      const _meta = { "toolrack/sessionID": session, ...(isFollowed ? { progressToken: session } : {}) };
      // Text in the place of arguments is no part of the SDK's types, and is what some samples are about.
      const asking = client.callTool(
        { name: tool, arguments: args as never, _meta },
        { signal: leaving.signal },
      );
      if (isCancelled) {
        await asking.catch(() => {});
        return {};
      }
      try {
        const answer = answerOfResult(fromMcpResult(await asking));
        const progress = heard.get(session);
        return { answer: { ...answer, ...(progress === undefined ? {} : { progress }) } };
      } catch (thrown) {
        if (!(thrown instanceof ProtocolError)) throw thrown;
        return { answer: { text: thrown.message, refusal: thrown.code } };
      }
    },
  };
}
