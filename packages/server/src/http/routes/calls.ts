import type { Grant } from "../../access/index.ts";
import type { CallQuery, Page, StoredCall } from "../../store/index.ts";
import { ResultElsewhereError } from "../../store/index.ts";
import type { HttpParts } from "../app.ts";
import {
  activeView,
  detailOf,
  mayRead,
  refusals,
  repeatArguments,
  requireCall,
  sendRecord,
  serveCall,
  summaryOf,
  unknownCall,
} from "../call-answers.ts";
import { ref } from "../schemas/common.ts";
import { blameCursor, defineRoute, HttpError, type Route } from "../wire/index.ts";
import { callOptions, callResponses, chosenCallId } from "./tools.ts";

interface ReplayBody {
  readonly callId?: string;
  readonly arguments?: unknown;
  readonly sessionID?: string;
  readonly messageID?: string;
  readonly timeout?: number;
  readonly keep?: boolean;
}

const identified = { callId: { type: "string", minLength: 1 } };
const LATEST = 8_640_000_000_000_000;
const moment = { type: "integer", minimum: 0, maximum: LATEST, description: "Milliseconds since the epoch." };
const milliseconds = { type: "number", minimum: 0, maximum: LATEST, description: "Milliseconds." };
const PAGE = 20_000;

export function callRoutes(parts: HttpParts): Route[] {
  const { registry, store, desk, recorder } = parts;
  const { calls } = store;
  return [
    defineRoute<object, CallQuery>({
      method: "GET",
      path: "/api/calls",
      id: "listCalls",
      tag: "calls",
      summary: "Recorded calls, newest first",
      description:
        "An admin sees all calls; any other token those that were made with it. A page may hold fewer calls than asked for and still have a `next`.",
      access: "token",
      query: {
        tool: { type: "string", description: "The tool's name; `*` stands for anything." },
        status: { enum: ["running", "completed", "error", "interrupted"] },
        session: { type: "string" },
        caller: { type: "string", description: "Who made them; `*` stands for anything." },
        parent: { type: "string", description: "The call that made them." },
        root: {
          type: "string",
          description: "A call: the answer has it, the calls that it made, and those that they made in turn.",
        },
        top: { type: "boolean", description: "`true`: only calls that no other call made." },
        flag: { enum: ["loop"], description: "`loop`: only calls with which a session went in circles." },
        text: { type: "string", description: "Anywhere in the arguments, the result or the error." },
        minDuration: milliseconds,
        maxDuration: milliseconds,
        since: moment,
        until: moment,
        limit: { type: "integer", minimum: 1, maximum: 500, default: 50 },
        cursor: { type: "string", description: "`next` of the page before." },
      },
      responses: { 200: { description: "A page of calls.", schema: ref("CallPage") } },
      async handle({ query, grant }) {
        const { items, next } = await listStored(parts, query, grant).catch(blameCursor);
        return { body: { items: items.map(summaryOf), ...(next === undefined ? {} : { next }) } };
      },
    }),
    defineRoute<{ callId: string }>({
      method: "GET",
      path: "/api/calls/{callId}",
      id: "getCall",
      tag: "calls",
      summary: "One call, under way or ended",
      access: "token",
      params: identified,
      responses: { 200: { description: "The call.", schema: ref("Call") } },
      errors: ["call_not_found"],
      async handle({ params: { callId }, grant }) {
        const active = findActive(parts, callId, grant);
        if (active !== undefined) return { body: active };
        return { body: detailOf(await requireCall(grant, callId, parts)) };
      },
    }),
    defineRoute<{ callId: string }, { reason?: string }>({
      method: "DELETE",
      path: "/api/calls/{callId}",
      id: "cancelCall",
      tag: "calls",
      summary: "Cancels a call under way, and the calls it made",
      access: "token",
      params: identified,
      query: {
        reason: {
          type: "string",
          maxLength: 500,
          description: "Reaches the tool, the caller and the record.",
        },
      },
      responses: { 200: { description: "The call as it ended.", schema: ref("Call") } },
      errors: ["call_not_found", "call_ended", "call_running"],
      async handle({ params: { callId }, query, grant }) {
        if (findActive(parts, callId, grant) !== undefined && registry.cancel(callId, query.reason)) {
          await recorder.flush();
          return { body: detailOf(await requireCall(grant, callId, parts)) };
        }
        const ended = await requireEnded(parts, callId, grant);
        const message = `The call "${callId}" has ended (${ended.outcome}); there is nothing to cancel.`;
        throw new HttpError("call_ended", message, { details: { callId, status: ended.outcome } });
      },
    }),
    defineRoute<{ callId: string }, { offset?: number; limit?: number }>({
      method: "GET",
      path: "/api/calls/{callId}/result",
      id: "readResult",
      tag: "calls",
      summary: "The whole text of a result, page by page",
      access: "token",
      params: identified,
      query: {
        offset: { type: "integer", minimum: 0, default: 0, description: "In characters." },
        limit: { type: "integer", minimum: 1, maximum: 1_000_000, default: PAGE },
      },
      responses: { 200: { description: "A page of the text.", schema: ref("ResultPage") } },
      errors: ["call_not_found", "call_running", "result_elsewhere"],
      async handle({ params: { callId }, query: { offset = 0, limit = PAGE }, grant }) {
        await requireEnded(parts, callId, grant);
        const page = await calls.readResult(callId, offset, limit).catch(blameNode);
        if (page === undefined) throw unknownCall(callId);
        const end = offset + page.text.length;
        return { body: { ...page, offset, ...(end < page.total ? { nextOffset: end } : {}) } };
      },
    }),
    defineRoute<{ callId: string }>({
      method: "GET",
      path: "/api/calls/{callId}/record",
      id: "downloadCall",
      tag: "calls",
      summary: "The whole record of a call that has ended, as a file",
      description:
        "What `GET /api/calls/{callId}` answers, with the whole text of the result where that has only its beginning.",
      access: "token",
      params: identified,
      responses: { 200: { description: "The call.", schema: ref("Call") } },
      errors: ["call_not_found", "call_running", "result_elsewhere"],
      async handle({ params: { callId }, grant, outgoing }) {
        const call = await requireEnded(parts, callId, grant);
        return sendRecord(call, calls, outgoing).catch(blameNode);
      },
    }),
    defineRoute<{ callId: string }, object, ReplayBody>({
      method: "POST",
      path: "/api/calls/{callId}/replay",
      id: "replayCall",
      tag: "calls",
      summary: "Makes a recorded call again",
      description:
        "With the recorded arguments, or with those in the body. The new call names the old one in `replayOf`. It belongs to no session unless one is given.",
      access: "token",
      params: identified,
      body: {
        schema: {
          type: "object",
          properties: {
            arguments: { description: "Instead of the recorded ones." },
            callId: chosenCallId,
            ...callOptions,
          },
          additionalProperties: false,
        },
      },
      responses: callResponses,
      errors: [
        ...refusals,
        "call_not_found",
        "call_running",
        "arguments_redacted",
        "call_exists",
        "too_many_calls",
        "stopping",
      ],
      async handle({ params: { callId }, body, grant, incoming, outgoing }) {
        const original = await requireEnded(parts, callId, grant);
        const { arguments: edited, ...options } = body;
        const input = edited === undefined ? repeatArguments(original) : edited;
        const call = { name: original.toolName, input, grant, replayOf: callId, ...options };
        return serveCall(desk, call, incoming, outgoing);
      },
    }),
  ];
}

/** The call if it is under way and the bearer may see it. */
function findActive(
  { registry, desk, recorder }: HttpParts,
  callId: string,
  grant: Grant,
): Record<string, unknown> | undefined {
  const state = registry.getState(callId);
  if (state === undefined || state.status === "completed" || state.status === "error") return undefined;
  const announced = desk.find(callId);
  if (!grant.admin && announced?.caller !== grant.caller) return undefined;
  const active = announced ?? registry.activeCalls().find((call) => call.callId === callId);
  return active === undefined
    ? undefined
    : activeView({ callId, toolName: active.toolName, state }, announced, recorder.linesOf(callId));
}

/** Refuses a call that is under way, here or in another process that works on the same store. */
async function requireEnded(parts: HttpParts, callId: string, grant: Grant): Promise<StoredCall> {
  const here = findActive(parts, callId, grant) !== undefined;
  const call = here ? undefined : await requireCall(grant, callId, parts);
  if (call !== undefined && call.outcome !== "running") return call;
  const where = here ? "" : " It runs in another process, which alone can cancel it.";
  throw new HttpError("call_running", `The call "${callId}" has not ended yet.${where}`, {
    details: { callId },
  });
}

/** How many pages are looked through for a bearer who may not see all of them. */
const MOST_PAGES = 20;

async function listStored(parts: HttpParts, query: CallQuery, grant: Grant): Promise<Page<StoredCall>> {
  const { calls } = parts.store;
  if (grant.admin) return calls.list(query);
  let cursor = query.cursor;
  for (let pages = 0; pages < MOST_PAGES; pages++) {
    const page = await calls.list(cursor === undefined ? query : { ...query, cursor });
    const readable = await Promise.all(page.items.map((call) => mayRead(grant, call, parts)));
    const items = page.items.filter((_, index) => readable[index]);
    if (items.length > 0 || page.next === undefined) return { ...page, items };
    cursor = page.next;
  }
  return { items: [], ...(cursor === undefined ? {} : { next: cursor }) };
}

function blameNode(thrown: unknown): never {
  if (thrown instanceof ResultElsewhereError) throw new HttpError("result_elsewhere", thrown.message);
  throw thrown;
}
