import {
  blameCursor,
  defineRoute,
  expertQuery,
  HttpError,
  type Route,
  type RouteRequest,
} from "../../http/wire/index.ts";
import type { ChatSession } from "../../store/index.ts";
import { howToConfigure } from "../model/providers.ts";
import type { UserContent } from "../sessions.ts";
import { requestedReach } from "../tools.ts";
import {
  type ChatRouteParts,
  contentSchema,
  messageView,
  model,
  ref,
  requireChat,
  resumeTurn,
  sayingWhy,
  streamTurn,
  text,
  title,
} from "./chat-stream.ts";

interface SessionParams {
  readonly id: string;
}

const params = { id: { type: "string", minLength: 1, maxLength: 80 } } as const;
const streamResponse = {
  description: "Or what happens, as it happens.",
  contentType: "text/event-stream",
  schema: text,
};
const failures = [
  "chat_session_not_found",
  "chat_busy",
  "chat_forbidden",
  "stopping",
  "provider_missing",
  "provider_refused",
  "provider_busy",
  "provider_failed",
  "provider_unauthorized",
  "model_not_found",
  "expert_not_found",
] as const;

/** How many messages of a conversation are sent at a time, unless told. */
const MESSAGES = 200;

/** Conversations that the server keeps. */
export function chatRoutes(parts: ChatRouteParts): Route[] {
  const found = async ({ grant }: Pick<RouteRequest<never, never, never>, "grant">, id: string) => {
    const chat = requireChat(parts);
    return { chat, session: await chat.sessions.require({ grant }, id) };
  };
  return [
    defineRoute({
      method: "GET",
      path: "/api/chat",
      id: "describeChat",
      tag: "chat",
      summary: "Whether there is a model to talk to, and its limits",
      access: "token",
      responses: {
        200: {
          description: "`advice` says how to configure a provider, when there is none.",
          schema: {
            type: "object",
            properties: { configured: { type: "boolean" }, advice: text, limits: { type: "object" } },
            required: ["configured"],
          },
        },
      },
      handle: () => {
        const { chat } = parts;
        if (chat === undefined || !chat.providers.isConfigured) {
          return { body: { configured: false, advice: howToConfigure } };
        }
        return { body: { configured: true, limits: { ...chat.limits, toolBudget: chat.toolBudget } } };
      },
    }),
    defineRoute<object, { expert?: string; query?: string }>({
      method: "GET",
      path: "/api/chat/tools",
      id: "chatTools",
      tag: "chat",
      summary: "Which tools a model would be offered, and what they take of its window",
      access: "token",
      query: {
        expert: expertQuery,
        query: { type: "string", maxLength: 10_000, description: "What the conversation begins with." },
      },
      responses: {
        200: {
          description: "Tokens are estimates. Tools that are not offered are found with `toolrack_search`.",
          schema: {
            type: "object",
            properties: {
              budget: { type: "integer" },
              tokens: { type: "integer", description: "Of what is offered." },
              tools: {
                type: "array",
                items: {
                  type: "object",
                  properties: { name: text, tokens: { type: "integer" }, offered: { type: "boolean" } },
                  required: ["name", "tokens", "offered"],
                },
              },
            },
            required: ["budget", "tokens", "tools"],
          },
        },
      },
      errors: ["expert_not_found", "provider_missing"],
      handle: ({ query, grant }) =>
        sayingWhy(async () => {
          const chat = requireChat(parts);
          const reach = requestedReach(parts, grant, query.expert);
          const budget = chat.toolBudget;
          const offered = await chat.tools.getTools(reach, { budget, query: query.query ?? "" });
          const names = new Set(offered.costs.map(({ name }) => name));
          const others = chat.tools.getCosts(reach).filter(({ name }) => !names.has(name));
          const tools = [
            ...offered.costs.map((cost) => ({ ...cost, offered: true })),
            ...others.map((cost) => ({ ...cost, offered: false })),
          ];
          const tokens = offered.costs.reduce((sum, cost) => sum + cost.tokens, 0);
          return { body: { budget, tokens, tools } };
        }),
    }),
    defineRoute<object, { limit?: number; cursor?: string }>({
      method: "GET",
      path: "/api/chat/sessions",
      id: "listChatSessions",
      tag: "chat",
      summary: "The conversations, the last used first",
      description: "An admin sees all of them, any other token its own.",
      access: "token",
      query: { limit: { type: "integer", minimum: 1, maximum: 500, default: 50 }, cursor: text },
      responses: {
        200: {
          description: "A page.",
          schema: {
            type: "object",
            properties: { items: { type: "array", items: ref("ChatSession") }, next: text },
            required: ["items"],
          },
        },
      },
      errors: ["provider_missing"],
      handle: ({ query, grant }) =>
        sayingWhy(async () => {
          const chat = requireChat(parts);
          const page = await chat.sessions.list({ grant }, query).catch(blameCursor);
          return { body: { ...page, items: page.items.map(sessionView) } };
        }),
    }),
    defineRoute<object, object, { title?: string; model?: string; system?: string; expert?: string }>({
      method: "POST",
      path: "/api/chat/sessions",
      id: "createChatSession",
      tag: "chat",
      summary: "Begins a conversation",
      access: "token",
      body: {
        schema: {
          type: "object",
          properties: {
            title,
            model,
            system: {
              type: "string",
              maxLength: 100_000,
              description: "What the model is told at the beginning.",
            },
            expert: expertQuery,
          },
          additionalProperties: false,
        },
      },
      responses: { 200: { description: "The conversation.", schema: ref("ChatSession") } },
      errors: ["expert_not_found", "provider_missing"],
      handle: ({ body: { expert: name, ...wanted }, grant }) =>
        sayingWhy(async () => {
          const chat = requireChat(parts);
          const session = await chat.sessions.create(requestedReach(parts, grant, name), wanted);
          return { body: sessionView(session) };
        }),
    }),
    defineRoute<SessionParams, { before?: number; limit?: number }>({
      method: "GET",
      path: "/api/chat/sessions/{id}",
      id: "getChatSession",
      tag: "chat",
      summary: "A conversation with its messages, oldest first",
      description:
        "Where there are older ones, `previous` says what to ask for as `before`. A page may have fewer than `limit`, because large ones are not sent all at once.",
      access: "token",
      params,
      query: {
        before: { type: "integer", minimum: 1, description: "Only messages with a smaller `position`." },
        limit: { type: "integer", minimum: 1, maximum: 500, default: MESSAGES },
      },
      responses: {
        200: {
          description: "The conversation.",
          schema: {
            allOf: [
              ref("ChatSession"),
              {
                type: "object",
                properties: {
                  messages: { type: "array", items: ref("ChatMessage") },
                  previous: { type: "integer" },
                },
                required: ["messages"],
              },
            ],
          },
        },
      },
      errors: ["chat_session_not_found", "provider_missing"],
      handle: (request) =>
        sayingWhy(async () => {
          const { chat, session } = await found(request, request.params.id);
          const { limit = MESSAGES, ...query } = request.query;
          const { items, ...more } = await chat.listMessages(session.id, { ...query, limit });
          return { body: { ...sessionView(session), messages: items.map(messageView), ...more } };
        }),
    }),
    defineRoute<SessionParams, object, { title?: string; model?: string }>({
      method: "PATCH",
      path: "/api/chat/sessions/{id}",
      id: "updateChatSession",
      tag: "chat",
      summary: "Gives a conversation another title or model",
      access: "token",
      params,
      body: { schema: { type: "object", properties: { title, model }, additionalProperties: false } },
      responses: { 200: { description: "The conversation.", schema: ref("ChatSession") } },
      errors: ["chat_session_not_found", "provider_missing"],
      handle: (request) =>
        sayingWhy(async () => {
          const { chat, session } = await found(request, request.params.id);
          return { body: sessionView(await chat.sessions.update(session, request.body)) };
        }),
    }),
    defineRoute<SessionParams>({
      method: "DELETE",
      path: "/api/chat/sessions/{id}",
      id: "removeChatSession",
      tag: "chat",
      summary: "Deletes a conversation and its messages; the records of its calls stay",
      access: "token",
      params,
      responses: {
        200: {
          description: "It is gone.",
          schema: { type: "object", properties: { id: text }, required: ["id"] },
        },
      },
      errors: ["chat_session_not_found", "provider_missing"],
      handle: (request) =>
        sayingWhy(async () => {
          const { chat, session } = await found(request, request.params.id);
          await chat.removeSession(session.id);
          return { body: { id: session.id } };
        }),
    }),
    defineRoute<SessionParams, object, { content: UserContent; model?: string }>({
      method: "POST",
      path: "/api/chat/sessions/{id}/messages",
      id: "sendChatMessage",
      tag: "chat",
      summary: "Says something, and has it answered",
      description:
        "With `Accept: text/event-stream` the answer is told as it comes: `turn`, then `text`, `reasoning`, `refusal`, `call`, `state`, `progress`, `approval`, `loop`, `retry`, `compacted` and `usage`, and `end` at last. Without it, the answer is the whole message. The turn goes on when the connection is lost: read on at `/events` with `Last-Event-ID`.",
      access: "token",
      params,
      body: {
        required: true,
        schema: {
          type: "object",
          properties: { content: contentSchema, model },
          required: ["content"],
          additionalProperties: false,
        },
      },
      responses: { 200: [{ description: "The answer.", schema: ref("ChatMessage") }, streamResponse] },
      errors: failures,
      handle: (request) =>
        sayingWhy(async () => {
          const { chat, session } = await found(request, request.params.id);
          const { headers } = request.incoming;
          const turn = await chat.handleStream(session, { ...request.body, headers }, request.grant);
          if (!/\btext\/event-stream\b/i.test(request.incoming.headers.accept ?? "")) {
            return { body: messageView(await turn.done) };
          }
          return streamTurn(turn, 0, request.outgoing, parts.settings.heartbeat);
        }),
    }),
    defineRoute<SessionParams>({
      method: "GET",
      path: "/api/chat/sessions/{id}/events",
      id: "readChatEvents",
      tag: "chat",
      summary: "What happens in the turn under way, until it ends",
      description:
        "With `Last-Event-ID` it goes on after that event. Without it, or when that is not known any more, it begins with `message`: the answer as it is now. A conversation in which nothing happens answers with its last message and `end`. Who has read the end is answered 204. Of a turn on another node of the same store it tells what is stored, about once a second.",
      access: "token",
      params,
      responses: {
        200: { ...streamResponse, description: "The stream." },
        204: { description: "The end was read already.", schema: text },
      },
      errors: ["chat_session_not_found", "provider_missing"],
      handle: (request) =>
        sayingWhy(async () => {
          if (request.incoming.method === "HEAD") {
            throw new HttpError("method_not_allowed", "A stream has no HEAD.", { headers: { Allow: "GET" } });
          }
          const { chat, session } = await found(request, request.params.id);
          return resumeTurn(chat, session, request.incoming, request.outgoing, parts.settings.heartbeat);
        }),
    }),
    defineRoute<SessionParams>({
      method: "POST",
      path: "/api/chat/sessions/{id}/stop",
      id: "stopChatTurn",
      tag: "chat",
      summary: "Ends the turn under way: the model's answer, and its calls",
      access: "token",
      params,
      responses: {
        200: {
          description: "`stopped` is false when nothing was under way.",
          schema: { type: "object", properties: { stopped: { type: "boolean" } }, required: ["stopped"] },
        },
      },
      errors: ["chat_session_not_found", "provider_missing"],
      handle: (request) =>
        sayingWhy(async () => {
          const { chat, session } = await found(request, request.params.id);
          return { body: { stopped: await chat.stop(session.id) } };
        }),
    }),
  ];
}

function sessionView({ state, ...rest }: ChatSession): Record<string, unknown> {
  return { ...rest, ...(state.system === undefined ? {} : { system: state.system }) };
}
