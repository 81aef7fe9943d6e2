import { Tool, type ToolInfo } from "@toolrack/core";
import type { CallStore } from "../../../store/store.ts";

export const readResultName = "toolrack_read_result";

const USUAL_LIMIT = 20_000;
const LARGEST_LIMIT = 40_000;

/**
 * Lets a model read what was cut out of a long result, or taken out of the conversation to make room. It shows calls of
 * its own session and caller, and nothing else.
 */
export function readResultTool(calls: Pick<CallStore, "get" | "readResult">): ToolInfo {
  return Tool.define({
    name: readResultName,
    title: "Read a result",
    description:
      "Reads a part of the whole result of an earlier call of this conversation: one that was cut because it is long, " +
      "or taken out to make room. Both say the callId to ask for.",
    parameters: {
      type: "object",
      properties: {
        callId: { type: "string", minLength: 1, maxLength: 200 },
        offset: { type: "integer", minimum: 0, default: 0, description: "The first character to read." },
        limit: { type: "integer", minimum: 1, maximum: LARGEST_LIMIT, default: USUAL_LIMIT },
      },
      required: ["callId"],
      additionalProperties: false,
    },
    metadata: { readOnly: true, idempotent: true, openWorld: false },
    execute: async ({ input, sessionID, caller }) => {
      const { callId, offset = 0, limit = USUAL_LIMIT } = input as Wanted;
      const call = await calls.get(callId);
      const isOwn =
        call !== undefined && sessionID !== "" && call.sessionID === sessionID && call.caller === caller;
      const page = isOwn ? await calls.readResult(callId, offset, limit) : undefined;
      if (page === undefined) {
        return {
          type: "error",
          content: `This conversation has no call "${callId}". Use a callId that a result names.`,
        };
      }
      const end = offset + page.text.length;
      if (page.text === "") return `There is nothing at ${offset}: the result has ${page.total} characters.`;
      return end < page.total
        ? `${page.text}\n… characters ${offset} to ${end} of ${page.total}; read on from offset ${end} …`
        : page.text;
    },
  });
}

interface Wanted {
  readonly callId: string;
  readonly offset?: number;
  readonly limit?: number;
}
