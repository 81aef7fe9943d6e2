import type { Grant } from "../../access/index.ts";
import type { StoredCall } from "../../store/index.ts";
import {
  activeView,
  detailOf,
  refusals,
  repeatArguments,
  requireCall,
  sendRecord,
  serveCall,
  summaryOf,
  unknownCall,
} from "../call-answers.ts";
import type { HttpServices } from "../services.ts";
import { HttpError, type Route, routesFor, s, whileAwaited } from "../wire/index.ts";
import { callAnswer, callOptions } from "./tools.ts";

const params = { callId: s.text({ minLength: 1 }) };
const LATEST = 8_640_000_000_000_000;
const moment = s.integer("Milliseconds since the epoch.", { minimum: 0, maximum: LATEST });
const milliseconds = s.number("Milliseconds.", { minimum: 0, maximum: LATEST });
const PAGE = 20_000;

export function callRoutes(services: HttpServices): Route[] {
  const { registry, store, service, recorder } = services;
  const { calls } = store;
  const route = routesFor("calls", "token");
  return [
    route("GET /api/calls", "listCalls", "Recorded calls, newest first", {
      description:
        "An admin sees all calls; any other token those that were made with it, and the calls that those made.",
      query: {
        tool: s.text("The tool's name; `*` stands for anything."),
        status: s.choice(["running", "completed", "error", "interrupted", "cancelled"]),
        session: s.text(),
        caller: s.text("Who made them; `*` stands for anything."),
        parent: s.text("The call that made them."),
        root: s.text("A call: the answer has it, the calls that it made, and those that they made in turn."),
        top: s.boolean("`true`: only calls that no other call made."),
        flag: s.choice(["loop"], "`loop`: only calls with which a session went in circles."),
        text: s.text("Anywhere in the arguments, the result or the error."),
        minDuration: milliseconds,
        maxDuration: milliseconds,
        since: moment,
        until: moment,
        limit: s.integer({ minimum: 1, maximum: 500, default: 50 }),
        cursor: s.text("`next` of the page before."),
      },
      answer: ["A page of calls.", s.ref("CallPage")],
      async handle({ query, grant, incoming, outgoing }) {
        const own = grant.admin ? {} : { owner: grant.caller };
        const list = (signal: AbortSignal) => calls.list({ ...query, ...own, signal });
        const { items = [], next } = (await whileAwaited(incoming, outgoing, list)) ?? {};
        return { items: items.map(summaryOf), next };
      },
    }),
    route("GET /api/calls/{callId}", "getCall", "One call, under way or ended", {
      params,
      answer: ["The call.", s.ref("Call")],
      errors: ["call_not_found"],
      handle: async ({ params: { callId }, grant }) =>
        findActive(services, callId, grant) ?? detailOf(await requireCall(grant, callId, services), grant),
    }),
    route("DELETE /api/calls/{callId}", "cancelCall", "Cancels a call under way, and the calls it made", {
      params,
      query: {
        reason: s.text("Reaches the tool, the caller and the record.", { maxLength: 500 }),
      },
      answer: ["The call as it ended.", s.ref("Call")],
      errors: ["call_not_found", "call_ended", "call_running"],
      async handle({ params: { callId }, query, grant }) {
        if (findActive(services, callId, grant) !== undefined && registry.cancel(callId, query.reason)) {
          await recorder.flush();
          return detailOf(await requireCall(grant, callId, services), grant);
        }
        const node = await service.nodeOf(callId);
        if (node !== undefined) {
          // Throws when the caller may not see the call.
          await requireCall(grant, callId, services);
          if (await service.cancelElsewhere(node, callId, query.reason))
            return detailOf(await requireCall(grant, callId, services), grant);
        }
        const { outcome } = await requireEnded(services, callId, grant);
        const message = `The call "${callId}" has ended (${outcome}); there is nothing to cancel.`;
        throw new HttpError("call_ended", message, { details: { callId, status: outcome } });
      },
    }),
    route("GET /api/calls/{callId}/result", "readResult", "The whole text of a result, page by page", {
      params,
      query: {
        offset: s.integer("In characters.", { minimum: 0, default: 0 }),
        limit: s.integer({ minimum: 1, maximum: 1_000_000, default: PAGE }),
      },
      answer: ["A page of the text.", s.ref("ResultPage")],
      errors: ["call_not_found", "call_running", "result_missing"],
      async handle({ params: { callId }, query: { offset = 0, limit = PAGE }, grant }) {
        await requireEnded(services, callId, grant);
        const page = await calls.readResult(callId, offset, limit);
        if (page === undefined) throw unknownCall(callId);
        const end = offset + page.text.length;
        return { ...page, offset, nextOffset: end < page.total ? end : undefined };
      },
    }),
    route(
      "GET /api/calls/{callId}/record",
      "downloadCall",
      "The whole record of a call that has ended, as a file",
      {
        description:
          "What `GET /api/calls/{callId}` answers, with the whole text of the result where that has only its beginning.",
        params,
        answer: ["The call.", s.ref("Call")],
        errors: ["call_not_found", "call_running", "result_missing"],
        async handle({ params: { callId }, grant, outgoing }) {
          const call = await requireEnded(services, callId, grant);
          return sendRecord(call, grant, calls, outgoing);
        },
      },
    ),
    route("POST /api/calls/{callId}/replay", "replayCall", "Makes a recorded call again", {
      description:
        "With the recorded arguments, or with those in the body. The new call names the old one in `replayOf`. It belongs to no session unless one is given.",
      params,
      optionalBody: s.closed({ "arguments?": s.anything("Instead of the recorded ones."), ...callOptions }),
      ...callAnswer,
      errors: [
        ...refusals,
        "call_not_found",
        "call_running",
        "arguments_redacted",
        "call_exists",
        "too_many_calls",
        "busy",
        "stopping",
      ],
      async handle({ params: { callId }, body, grant, incoming, outgoing }) {
        const original = await requireEnded(services, callId, grant);
        const { arguments: edited, ...options } = body;
        const input = edited === undefined ? repeatArguments(original) : edited;
        const call = { name: original.toolName, input, grant, replayOf: callId, ...options };
        return serveCall(service, call, incoming, outgoing);
      },
    }),
  ];
}

/** Returns the call if it is running and the caller may see it. */
function findActive(
  { registry, service, recorder }: HttpServices,
  callId: string,
  grant: Grant,
): Record<string, unknown> | undefined {
  const state = registry.getState(callId);
  if (state === undefined || state.status === "completed" || state.status === "error") return undefined;
  const announced = service.find(callId);
  if (!grant.admin && announced?.caller !== grant.caller) return undefined;
  const active = announced ?? registry.activeCalls().find((call) => call.callId === callId);
  return active === undefined
    ? undefined
    : activeView({ callId, toolName: active.toolName, state }, announced, recorder.linesOf(callId));
}

/**
 * Returns the stored call. Throws while the call is running, here or in another process on the same store.
 */
async function requireEnded(parts: HttpServices, callId: string, grant: Grant): Promise<StoredCall> {
  const here = findActive(parts, callId, grant) !== undefined;
  const call = here ? undefined : await requireCall(grant, callId, parts);
  if (call !== undefined && call.outcome !== "running") return call;
  throw new HttpError("call_running", `The call "${callId}" has not ended yet.`, { details: { callId } });
}
