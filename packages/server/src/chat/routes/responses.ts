import type { ServerResponse } from "node:http";
import { type Route, type RouteRequest, routesFor, s, type sent } from "../../http/wire/index.ts";
import type { ChatMessage } from "../../store/index.ts";
import { refuse } from "../completion-request.ts";
import { type CompletionRuns, type CompletionWork, identify } from "../completion-runs.ts";
import type { Completion } from "../completions.ts";
import { ChatError } from "../errors.ts";
import { digitsOf, toItems } from "../response-items.ts";
import { type ResponseRequest, refuseUnservable, responseRequestSchema } from "../response-request.ts";
import { Responses } from "../responses.ts";
import { assistantBody } from "../sessions.ts";
import { eventsBetween } from "../turn.ts";
import { type ResponseForm, ResponseStream, toOpenResponse, toResponse } from "./response-stream.ts";
import { type ChatRouteParts, requireChat, turnErrors } from "./route-errors.ts";
import { runsOf, serveRun, wantedBy } from "./served-run.ts";

const params = { id: s.text({ minLength: 1, maxLength: 80 }) };
const answer = ["The response, as OpenAI has it.", s.anyObject()] as const;
const errors = ["provider_missing", "response_not_found"] as const;

/** OpenAI's clients may send these, and there is nothing that they would change. */
const ignored = { "include[]": s.anything(), include_obfuscation: s.anything() };

/** OpenAI's Responses API over the turns and conversations of the rack. */
export function responseRoutes(parts: ChatRouteParts): Route[] {
  const runs = runsOf(parts);
  const route = routesFor("chat", "token");
  const open = () => new Responses(requireChat(parts), parts.store.chat, parts.registry);
  const find = async (request: Pick<RouteRequest<{ id: string }>, "grant" | "params">) => {
    const responses = open();
    return { responses, message: await responses.require(request, request.params.id) };
  };
  return [
    route(
      "POST /v1/responses",
      "createResponse",
      "Asks a model that has the rack's tools, by the Responses API",
      {
        description:
          "Takes and answers what OpenAI's Responses do, streamed or not, with any provider of chat completions. The tools within the token's reach are offered to the model and run here; `tools` of the types `function` and `custom` are offered too, and handed back when the model calls them. Responses are kept, each as an answer of a conversation, unless `store` is false. Closing the connection ends all of it, unless `background` is true.",
        body: responseRequestSchema,
        answer,
        stream: "Or its events.",
        errors: [...turnErrors, "chat_busy", "response_not_found"],
        handle: (request) => create(parts, runs, open(), request),
      },
    ),
    route("GET /v1/responses/{id}", "getResponse", "A response, also while it is written", {
      description:
        "With `stream` its events are told from the beginning, or those after the number `starting_after`.",
      params,
      query: { stream: s.boolean(), starting_after: s.integer({ minimum: 0 }), ...ignored },
      answer,
      stream: "Or its events, with `stream`.",
      errors,
      async handle(request) {
        const { responses, message } = await find(request);
        const { stream, starting_after } = request.query;
        if (!stream) return view(responses, message);
        return follow(parts, responses, message, request.outgoing, starting_after);
      },
    }),
    route("DELETE /v1/responses/{id}", "deleteResponse", "Deletes a response", {
      description:
        "What later responses build on stays until they are deleted too. The records of its calls stay.",
      params,
      answer: ["It is gone.", s.object({ id: s.text(), deleted: s.boolean() })],
      errors,
      async handle(request) {
        const { responses, message } = await find(request);
        await responses.remove(message);
        return { id: request.params.id, object: "response", deleted: true };
      },
    }),
    route("POST /v1/responses/{id}/cancel", "cancelResponse", "Ends the work on a response, and its calls", {
      params,
      answer,
      errors,
      async handle(request) {
        const { responses, message } = await find(request);
        return view(responses, await responses.cancel(message));
      },
    }),
    route("GET /v1/responses/{id}/input_items", "listResponseInput", "What a response answers", {
      params,
      query: {
        limit: s.integer({ minimum: 1, maximum: 100, default: 20 }),
        order: s.choice(["asc", "desc"]),
        after: s.text("The id of the last item of the page before."),
        ...ignored,
      },
      answer: ["The items.", s.object({ data: s.list(s.anyObject()), has_more: s.boolean() })],
      errors,
      async handle(request) {
        const { responses, message } = await find(request);
        const { limit = 20, order = "desc", after } = request.query;
        const all = await responses.listInput(message);
        if (order === "desc") all.reverse();
        const last = all.findIndex(({ id }) => id === after);
        if (after !== undefined && last < 0) {
          const text = `The response "${request.params.id}" answers no item "${after}". Name the last item of the page before.`;
          throw new ChatError("response_not_found", text, "after");
        }
        const rest = all.slice(last + 1);
        const data = rest.slice(0, limit);
        const ends = { first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null };
        return { object: "list", data, ...ends, has_more: rest.length > limit };
      },
    }),
  ];
}

async function create(
  parts: ChatRouteParts,
  runs: CompletionRuns,
  responses: Responses,
  request: RouteRequest<unknown, unknown, ResponseRequest>,
): Promise<unknown> {
  const { body, grant, incoming, outgoing } = request;
  const { tellsEvents, ...wanted } = await wantedBy(parts, request);
  const { input, ...given } = body;
  const settings = { ...given, ...(tellsEvents && { toolrack: { ...body.toolrack, events: true } }) };
  const items = toItems(input);
  refuseUnservable(body, items);
  const form = {
    settings: parts.registry.mask(settings),
    model: body.model || wanted.endpoint.model,
    createdAt: Date.now(),
  };
  const { previous_response_id, instructions, tools, background } = body;
  const said = [input, previous_response_id, instructions, tools, body.toolrack?.expert, background];
  const identity = identify(incoming.headers, grant.id, said);
  const work: CompletionWork = (run) => responses.answer({ settings, items }, { ...wanted, ...run });
  if (background) {
    // No connection is attached to a background run, so a client that disconnects does not end it.
    const run = runs.find(identity) ?? runs.begin(identity, work);
    const message = await responses.require({ grant }, `resp_${digitsOf(await run.begun)}`);
    return body.stream ? follow(parts, responses, message, outgoing) : view(responses, message);
  }
  const stream = body.stream ? new ResponseStream(outgoing, form) : undefined;
  const toWhole = (completion: Completion) => toResponse(completion, form);
  return serveRun(parts, { runs, identity, work }, { incoming, outgoing, stream, toWhole });
}

/** Tells the events of a stored response, and of one that is being written until it ends. */
async function follow(
  parts: ChatRouteParts,
  responses: Responses,
  message: ChatMessage,
  outgoing: ServerResponse,
  after?: number,
): Promise<typeof sent> {
  const turn = await requireChat(parts).watch(message.sessionId);
  const own = turn?.message.id === message.id ? turn : undefined;
  const isWhole = own?.feed.knowsAfter(0) === true && own.feed.last > 0;
  if (after !== undefined && !isWhole) {
    refuse(
      "starting_after",
      "The events of this response are not known any more. Retrieve it without `starting_after`.",
    );
  }
  const stream = new ResponseStream(outgoing, formOf(message), after);
  stream.tell({ type: "turn", sessionId: message.sessionId, messageId: message.id });
  stream.keepAlive();
  if (own === undefined) return stream.end(responses.read(message), false);
  const alive = setInterval(stream.keepAlive, parts.settings.heartbeat);
  if (!isWhole) for (const event of eventsBetween([], own.parts)) stream.tell(event);
  const unfollow = own.feed.follow(isWhole ? 0 : own.feed.last, ({ data }) => stream.tell(data));
  try {
    return stream.end(responses.read(await own.done), true);
  } finally {
    clearInterval(alive);
    unfollow();
  }
}

function view(responses: Responses, message: ChatMessage): Record<string, unknown> {
  const completion = responses.read(message);
  if (message.status !== "running") return toResponse(completion, formOf(message));
  return toOpenResponse(completion, formOf(message));
}

function formOf(message: ChatMessage): ResponseForm {
  const { settings = {}, model } = assistantBody(message);
  return { settings, model: settings.model || model, createdAt: message.createdAt };
}
