import { type Client, ProtocolError } from "@modelcontextprotocol/client";
import { fromMcpResult } from "@toolrack/core";
import type { ParityRack } from "../parity-rack.ts";
import type { Answer } from "../sample-call.ts";
import { answerOfResult, type Surface, type SurfaceName } from "../surface.ts";

/** Makes calls with `tools/call`, through the client of the MCP SDK. */
export function mcp(
  name: SurfaceName,
  caller: string,
  client: Client,
  { untilRunning }: ParityRack,
): Surface {
  const heard = new Map<string | number, NonNullable<Answer["progress"]>>();
  // The SDK's own handler drops progress that arrives together with the answer, so this one replaces it.
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
      // A call with a progress token takes another path through the server, so only calls that need one send it.
      const isFollowed = isCancelled || expected.progress !== undefined;
      const _meta = { "toolrack/sessionID": session, ...(isFollowed ? { progressToken: session } : {}) };
      // Some samples send text in place of arguments, which the SDK's types do not allow.
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
