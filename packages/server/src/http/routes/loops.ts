import type { ToolInfo } from "@toolrack/core";
import type { Grant } from "../../access/index.ts";
import type { HttpServices } from "../services.ts";
import { HttpError, type Route, routesFor, s } from "../wire/index.ts";

const DAY = 24 * 60 * 60_000;
const MOST = 500;

/** Sessions that go in circles: why loop detection says so, and a person's word that one may go on. */
export function loopRoutes({ loops, registry, feed, recorder }: HttpServices): Route[] {
  const route = routesFor("calls", "token");
  return [
    route("GET /api/loops", "listLoops", "Sessions that went in circles in the last 24 hours, newest first", {
      description:
        "Each loop once, with the latest call that showed it. An admin sees all; any other token those of calls that were made with it.",
      query: { session: s.text("Only of this session.") },
      answer: ["The loops.", s.items(s.ref("Loop"))],
      async handle({ query, grant }) {
        const own = grant.admin ? {} : { owner: grant.caller };
        await recorder.flush();
        return { items: await loops.list({ ...query, ...own, since: Date.now() - DAY, limit: MOST }) };
      },
    }),
    route(
      "POST /api/loops/{sessionID}/resume",
      "resumeSession",
      "Lets a session go on that was held or stopped",
      {
        description:
          "What the session repeated before no longer counts. For an admin, or a token with a grant to approve each tool that repeats itself in sessions of this name. Who did it stays on record, and `GET /api/loops` shows it. Another node of the same store lets the session go on within about two seconds.",
        params: { sessionID: s.text({ minLength: 1, maxLength: 200 }) },
        answer: ["Who let it go on.", s.ref("LoopRelease")],
        errors: ["loop_not_found", "forbidden"],
        async handle({ params: { sessionID }, grant }) {
          await recorder.flush();
          const found = await loops.list({ session: sessionID, since: Date.now() - DAY, limit: MOST });
          requireApprover(
            grant,
            found.map(({ toolName }) => registry.get(toolName)),
          );
          if (found.length === 0) {
            const message = `The session "${sessionID}" did not go in circles in the last 24 hours. GET /api/loops lists those that did.`;
            throw new HttpError("loop_not_found", message, { details: { sessionID } });
          }
          const release = await loops.resume(sessionID, grant.caller);
          feed.publish("loop.resumed", release, "admins");
          return release;
        },
      },
    ),
  ];
}

/**
 * A model that goes in circles may not let itself go on: that takes the same right as to approve the calls of the tools. Of all
 * of them, because sessions of several owners may have one name.
 */
function requireApprover(grant: Grant, tools: readonly (ToolInfo | undefined)[]): void {
  const mayApprove = (tool: ToolInfo | undefined) => tool !== undefined && grant.mayApprove(tool);
  if (grant.admin || (tools.length > 0 && tools.every(mayApprove))) return;
  throw new HttpError(
    "forbidden",
    "Only an admin's token, or one with a grant to approve each tool that repeats itself, may do this.",
  );
}
