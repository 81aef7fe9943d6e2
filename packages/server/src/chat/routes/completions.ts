import type { IncomingMessage } from "node:http";
import type { HttpExtension } from "../../http/wire/index.ts";
import { callerGone, HttpError, type Route, type RouteRequest, routesFor, s } from "../../http/wire/index.ts";
import type { ChatService } from "../chat-service.ts";
import { type CompletionRequest, completionRequestSchema } from "../completion-request.ts";
import { CompletionRuns, identify } from "../completion-runs.ts";
import { unsupported } from "../completions.ts";
import type { ListedModel } from "../providers.ts";
import { requestedReach } from "../tools.ts";
import { chatRoutes, chatSchemas } from "./chat.ts";
import { type ChatRouteParts, errorOfEnd, requireChat, turnErrors, withHttpErrors } from "./chat-stream.ts";
import { CompletionStream, formOf, toCompletion } from "./completion-response.ts";

/** The routes of chat and of the OpenAI-compatible endpoint. Without a chat service they say how to configure one. */
export function chatExtension(chat?: ChatService): HttpExtension {
  return {
    schemas: chatSchemas,
    routes: (parts) =>
      [...completionRoutes({ ...parts, chat }), ...chatRoutes({ ...parts, chat })].map(withHttpErrors),
    async grantsChanged() {
      await chat?.endWithdrawn();
    },
  };
}

/** The endpoint for OpenAI's clients. The rack's tools run during the request. */
function completionRoutes(parts: ChatRouteParts): Route[] {
  const runs = new CompletionRuns(parts.store.chat, parts.logger);
  const findModel = async (wanted: string) => {
    const { providers } = requireChat(parts);
    const listed = await providers.list();
    const found = listed.find(({ id }) => id === wanted);
    if (found !== undefined) return modelView(found);
    // The request may use another name of the model.
    const { provider, model } = await providers.resolve(wanted);
    const own = listed.filter((one) => one.provider === provider);
    const isListed = own.some(({ id }) => id === model || id === `${provider}/${model}`);
    // A provider without a list may have any model.
    if (isListed || own.length === 0) return modelView({ id: wanted, provider });
    throw new HttpError("model_not_found", `There is no model "${wanted}". GET /v1/models lists them.`);
  };
  const errors = ["provider_missing", "model_not_found"] as const;
  const part = s.text({ minLength: 1, maxLength: 200 });
  const route = routesFor("chat", "token");
  return [
    route("GET /v1/models", "listModels", "The models of all providers, as OpenAI lists them", {
      answer: ["The list.", s.object({ data: s.list(s.object({ id: s.text() })) })],
      errors: ["provider_missing"],
      async handle() {
        const listed = await requireChat(parts).providers.list();
        return { object: "list", data: listed.map(modelView) };
      },
    }),
    route("GET /v1/models/{id}", "getModel", "One model, as OpenAI tells of it", {
      params: { id: part },
      answer: ["The model.", s.anyObject()],
      errors,
      handle: ({ params }) => findModel(params.id),
    }),
    route(
      "GET /v1/models/{provider}/{name}",
      "getProviderModel",
      "The same for a name with a slash that is not encoded",
      {
        params: { provider: part, name: part },
        answer: ["The model.", s.anyObject()],
        errors,
        handle: ({ params: { provider, name } }) => findModel(`${provider}/${name}`),
      },
    ),
    route("POST /v1/chat/completions", "createChatCompletion", "Asks a model that has the rack's tools", {
      description:
        "Takes and answers what OpenAI's Chat Completions do, streamed or not. The tools within the token's reach are offered to the model and run here; `tools` of the request, or the older `functions`, are offered too, and handed back when the model calls them. Send `X-Toolrack-Events: 1`, or `toolrack: {events: true}`, to be told of the tools that are run. Closing the connection ends all of it.",
      body: completionRequestSchema,
      answer: ["The answer.", s.anyObject()],
      stream: "Or its chunks.",
      errors: [...turnErrors, "chat_cancelled"],
      handle: (request) => complete(parts, runs, request),
    }),
  ];
}

async function complete(
  parts: ChatRouteParts,
  runs: CompletionRuns,
  { body, grant, incoming, outgoing }: RouteRequest<unknown, unknown, CompletionRequest>,
): Promise<unknown> {
  const chat = requireChat(parts);
  const reach = requestedReach(parts, grant, body.toolrack?.expert ?? header(incoming, "x-toolrack-expert"));
  const tellsEvents =
    body.toolrack?.events === true || /^(1|true|on)$/i.test(header(incoming, "x-toolrack-events") ?? "");
  const endpoint = await chat.providers.resolve(body.model ?? undefined);
  const problem = unsupported(body, endpoint);
  if (problem !== undefined) throw new HttpError("invalid_request", problem);
  const form = formOf(body, tellsEvents);
  const identity = identify(incoming.headers, grant.id, body);
  const gone = callerGone(incoming, outgoing);
  let alive: NodeJS.Timeout | undefined;
  try {
    const known = await runs.find(identity);
    const given = { reach, headers: incoming.headers };
    const run = known ?? runs.begin(identity, (work) => chat.complete(body, { ...given, ...work }));
    // OpenAI's clients retry only before they got any answer; a client with an idempotency key may retry any time.
    const mayReturn = () => identity?.isKeyed === true || !outgoing.headersSent;
    const reader = { gone: gone.signal, mayReturn };
    if (body.stream) {
      const stream = new CompletionStream(outgoing, form, body.model || endpoint.model);
      alive = setInterval(stream.keepAlive, parts.settings.heartbeat);
      // A reader that joins a running request gets the whole answer at the end.
      const isTold = known === undefined;
      return stream.end(await run.read({ ...reader, tell: isTold ? stream.tell : undefined }), isTold);
    }
    const completion = await run.read(reader);
    const error = errorOfEnd(completion.end);
    if (error !== undefined) throw error;
    return toCompletion(completion, form);
  } finally {
    clearInterval(alive);
    gone.release();
  }
}

function modelView({ id, provider }: ListedModel): Record<string, unknown> {
  return { id, object: "model", created: 0, owned_by: provider };
}

function header({ headers }: IncomingMessage, name: string): string | undefined {
  const value = headers[name];
  return typeof value === "string" && value !== "" ? value : undefined;
}
