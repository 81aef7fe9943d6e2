import type { HttpExtension } from "../../http/wire/index.ts";
import { type Route, type RouteRequest, routesFor, s } from "../../http/wire/index.ts";
import type { ChatService } from "../chat-service.ts";
import { type CompletionRequest, completionRequestSchema, refuseUnservable } from "../completion-request.ts";
import { type CompletionRuns, type CompletionWork, identify } from "../completion-runs.ts";
import type { Completion } from "../completions.ts";
import type { ListedModel } from "../providers.ts";
import { chatRoutes, chatSchemas } from "./chat.ts";
import { CompletionStream, formOf, toCompletion } from "./completion-response.ts";
import { embeddingRoutes } from "./embeddings.ts";
import { responseRoutes } from "./responses.ts";
import { type ChatRouteParts, requireChat, turnErrors, withHttpErrors } from "./route-errors.ts";
import { runsOf, serveRun, wantedBy } from "./served-run.ts";

/** The routes of chat and of the OpenAI-compatible endpoint. Without a chat service they say how to configure one. */
export function chatExtension(chat?: ChatService): HttpExtension {
  return {
    schemas: chatSchemas,
    routes: (extension) => {
      const parts = { ...extension, chat };
      const chapters = [completionRoutes, responseRoutes, embeddingRoutes, chatRoutes];
      return chapters.flatMap((routesOf) => routesOf(parts)).map(withHttpErrors);
    },
    async grantsChanged() {
      await chat?.endWithdrawn();
    },
  };
}

/** A name may have slashes, such as `PROVIDER/OWNER/NAME`, and not every client encodes them. */
const modelPaths = [
  ["GET /v1/models/{id}", "getModel", "One model, as OpenAI tells of it"],
  ["GET /v1/models/{provider}/{name}", "getProviderModel", "The same for a name with a slash"],
  ["GET /v1/models/{provider}/{owner}/{name}", "getOwnersModel", "The same for a name with two slashes"],
] as const;

/** The endpoint for OpenAI's clients. The rack's tools run during the request. */
function completionRoutes(parts: ChatRouteParts): Route[] {
  const runs = runsOf(parts);
  const findModel = async (wanted: string) => {
    const { providers } = requireChat(parts);
    const found = (await providers.list()).find(({ id }) => id === wanted);
    // The request may use another name of the model.
    return modelView(found ?? { id: wanted, provider: (await providers.resolve(wanted)).provider });
  };
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
    ...modelPaths.map(([path, id, title]) =>
      route(path, id, title, {
        params: Object.fromEntries([...path.matchAll(/{(\w+)}/g)].map(([, name = ""]) => [name, part])),
        answer: ["The model.", s.anyObject()],
        errors: ["provider_missing", "model_not_found"],
        handle: ({ params }) => findModel(Object.values(params).join("/")),
      }),
    ),
    route("POST /v1/chat/completions", "createChatCompletion", "Asks a model that has the rack's tools", {
      description:
        "Takes and answers what OpenAI's Chat Completions do, streamed or not. The tools within the token's reach are offered to the model and run here; `tools` of the request, or the older `functions`, are offered too, and handed back when the model calls them. Send `X-Toolrack-Events: 1`, or `toolrack: {events: true}`, to be told of the tools that are run. Closing the connection ends all of it. Once a tool that does more than read has begun, a failure is told in the text and in `toolrack.error`, with status 200, and the same request gets the same answer for 2 minutes.",
      body: completionRequestSchema,
      answer: ["The answer.", s.anyObject()],
      stream: "Or its chunks.",
      errors: turnErrors,
      handle: (request) => complete(parts, runs, request),
    }),
  ];
}

async function complete(
  parts: ChatRouteParts,
  runs: CompletionRuns,
  request: RouteRequest<unknown, unknown, CompletionRequest>,
): Promise<unknown> {
  const { body, grant, incoming, outgoing } = request;
  const { chat, tellsEvents, ...wanted } = await wantedBy(parts, request);
  refuseUnservable(body, wanted.endpoint);
  const form = formOf(body, tellsEvents);
  const { messages, tools, functions, toolrack } = body;
  const identity = identify(incoming.headers, grant.id, [messages, tools, functions, toolrack?.expert]);
  const work: CompletionWork = (run) => chat.complete(body, { ...wanted, ...run });
  const model = body.model || wanted.endpoint.model;
  const stream = body.stream ? new CompletionStream(outgoing, form, model) : undefined;
  const toWhole = (completion: Completion) => toCompletion(completion, form);
  return serveRun(parts, { runs, identity, work }, { incoming, outgoing, stream, toWhole });
}

function modelView({ id, provider, providers }: ListedModel): Record<string, unknown> {
  const view = { id, object: "model", created: 0, owned_by: provider };
  return providers === undefined ? view : { ...view, toolrack: { providers } };
}
