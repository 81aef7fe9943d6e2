import {
  acceptsStream,
  expertQuery,
  expertsOf,
  type Route,
  type RouteRequest,
  refuseHead,
  routesFor,
  s,
  sent,
} from "../../http/wire/index.ts";
import type { ChatSession } from "../../store/index.ts";
import { howToConfigure } from "../providers.ts";
import type { UserContent } from "../sessions.ts";
import { requestedReach } from "../tools.ts";
import { messageView, resumeTurn, streamTurn } from "./chat-stream.ts";
import { type ChatRouteParts, requireChat, turnErrors } from "./route-errors.ts";

const params = { id: s.text({ minLength: 1, maxLength: 80 }) };
const model = s.text({ maxLength: 200, description: "As `GET /v1/models` lists it." });
const title = s.text({ maxLength: 500 });
const content: s.Schema<UserContent> = {
  anyOf: [
    s.text({ minLength: 1 }),
    s.list(s.object({ type: s.text() }, { additionalProperties: true }), { minItems: 1 }),
  ],
  description: 'Text, or `{type: "text"}` and `{type: "image_url"}` parts as Chat Completions has them.',
};
/** What the routes of one session have in common. */
const ofSession = { params, errors: ["chat_session_not_found", "provider_missing"] } as const;
const session = ["The conversation.", s.ref("ChatSession")] as const;

/** Default number of messages per page. */
const MESSAGES = 200;

/** How many tools that are not offered to a model are listed. */
const MOST_LISTED = 1_000;

export function chatRoutes(parts: ChatRouteParts): Route[] {
  const route = routesFor("chat", "token");
  const find = async ({ grant, params: { id } }: Pick<RouteRequest<{ id: string }>, "grant" | "params">) => {
    const chat = requireChat(parts);
    return { chat, session: await chat.sessions.require({ grant }, id) };
  };
  const { heartbeat } = parts.settings;
  const { store, forwarder } = parts;
  return [
    route("GET /api/chat", "describeChat", "Whether there is a model to talk to, and its limits", {
      answer: [
        "`advice` says how to configure a provider, when there is none.",
        s.object({
          configured: s.boolean(),
          "advice?": s.text(),
          "limits?": s.anyObject(),
          "experts?": s.texts("The names of the experts that the token may talk as."),
        }),
      ],
      handle({ grant }) {
        const { chat } = parts;
        if (!chat?.providers.isConfigured) return { configured: false, advice: howToConfigure };
        return {
          configured: true,
          limits: { ...chat.limits, toolBudget: chat.toolBudget },
          experts: expertsOf(grant, parts.skills.experts).map(({ name }) => name),
        };
      },
    }),
    route(
      "GET /api/chat/tools",
      "chatTools",
      "Which tools a model would be offered, and what they take of its window",
      {
        query: {
          expert: expertQuery,
          query: s.text({ maxLength: 10_000, description: "What the conversation begins with." }),
        },
        answer: [
          "Tokens are estimates. Tools that are not offered are found with `toolrack_search`.",
          s.object({
            budget: s.integer(),
            tokens: s.integer("Of what is offered."),
            tools: s.list(s.object({ name: s.text(), tokens: s.integer(), offered: s.boolean() })),
            "unlisted?": s.integer("How many tools are not offered, when they are too many to be listed."),
          }),
        ],
        errors: ["expert_not_found", "provider_missing"],
        async handle({ query: { expert, query = "" }, grant }) {
          const { tools, toolBudget: budget } = requireChat(parts);
          const reach = requestedReach(parts, grant, expert);
          const { costs } = await tools.getTools(reach, { budget, query });
          const names = new Set(costs.map(({ name }) => name));
          const others = tools.getOtherCosts(reach, names, MOST_LISTED);
          return {
            budget,
            tokens: costs.reduce((sum, cost) => sum + cost.tokens, 0),
            tools: [
              ...costs.map((cost) => ({ ...cost, offered: true })),
              ...others.costs.map((cost) => ({ ...cost, offered: false })),
            ],
            unlisted: others.unlisted || undefined,
          };
        },
      },
    ),
    route("GET /api/chat/sessions", "listChatSessions", "The conversations, the last used first", {
      description: "An admin sees all of them, any other token its own.",
      query: { limit: s.integer({ minimum: 1, maximum: 500, default: 50 }), cursor: s.text() },
      answer: ["A page.", s.object({ items: s.list(s.ref("ChatSession")), "next?": s.text() })],
      errors: ["provider_missing"],
      async handle({ query, grant }) {
        const page = await requireChat(parts).sessions.list({ grant }, query);
        return { ...page, items: page.items.map(sessionView) };
      },
    }),
    route("POST /api/chat/sessions", "createChatSession", "Begins a conversation", {
      optionalBody: s.closed({
        "title?": title,
        "model?": model,
        "system?": s.text({ maxLength: 100_000, description: "What the model is told at the beginning." }),
        "expert?": expertQuery,
      }),
      answer: session,
      errors: ["expert_not_found", "provider_missing"],
      async handle({ body: { expert, ...wanted }, grant }) {
        const { sessions } = requireChat(parts);
        return sessionView(await sessions.create(requestedReach(parts, grant, expert), wanted));
      },
    }),
    route("GET /api/chat/sessions/{id}", "getChatSession", "A conversation with its messages, oldest first", {
      description:
        "Where there are older ones, `previous` says what to ask for as `before`. A page may have fewer than `limit`, because large ones are not sent all at once.",
      ...ofSession,
      query: {
        before: s.integer({ minimum: 1, description: "Only messages with a smaller `position`." }),
        limit: s.integer({ minimum: 1, maximum: 500, default: MESSAGES }),
      },
      answer: [
        "The conversation.",
        {
          allOf: [
            s.ref("ChatSession"),
            s.object({ messages: s.list(s.ref("ChatMessage")), "previous?": s.integer() }),
          ],
        },
      ],
      async handle(request) {
        const { chat, session } = await find(request);
        const { items, ...more } = await chat.listMessages(session.id, { limit: MESSAGES, ...request.query });
        return { ...sessionView(session), messages: items.map(messageView), ...more };
      },
    }),
    route(
      "PATCH /api/chat/sessions/{id}",
      "updateChatSession",
      "Gives a conversation another title or model",
      {
        ...ofSession,
        optionalBody: s.closed({ "title?": title, "model?": model }),
        answer: session,
        async handle(request) {
          const { chat, session } = await find(request);
          return sessionView(await chat.sessions.update(session, request.body));
        },
      },
    ),
    route(
      "DELETE /api/chat/sessions/{id}",
      "removeChatSession",
      "Deletes a conversation and its messages; the records of its calls stay",
      {
        ...ofSession,
        answer: ["It is gone.", s.object({ id: s.text() })],
        async handle(request) {
          const { chat, session } = await find(request);
          await chat.removeSession(session.id);
          return { id: session.id };
        },
      },
    ),
    route("POST /api/chat/sessions/{id}/messages", "sendChatMessage", "Says something, and has it answered", {
      description:
        "With `Accept: text/event-stream` the answer is told as it comes: `turn`, then `text`, `reasoning`, `refusal`, `call`, `state`, `progress`, `approval`, `loop`, `retry`, `compacted` and `usage`, and `end` at last. Without it, the answer is the whole message. The turn goes on when the connection is lost: read on at `/events` with `Last-Event-ID`.",
      params,
      body: s.closed({
        content,
        "model?": model,
        "from?": s.integer({
          minimum: 1,
          description:
            "The `position` of an earlier message: it and all that follow are deleted first. Sends a message anew, changed or not.",
        }),
      }),
      answer: ["The answer.", s.ref("ChatMessage")],
      stream: "Or what happens, as it happens.",
      errors: ["chat_session_not_found", "chat_busy", ...turnErrors],
      async handle(request) {
        const { chat, session } = await find(request);
        const { grant, incoming, outgoing } = request;
        const message = { ...request.body, headers: incoming.headers };
        const turn = await chat.handleStream(session, message, grant);
        return acceptsStream(incoming)
          ? streamTurn(turn, 0, outgoing, heartbeat)
          : messageView(await turn.done);
      },
    }),
    route(
      "GET /api/chat/sessions/{id}/events",
      "readChatEvents",
      "What happens in the turn under way, until it ends",
      {
        description:
          "With `Last-Event-ID` it goes on after that event. Without it, or when that is not known any more, it begins with `message`: the answer as it is now. A conversation in which nothing happens answers with its last message and `end`. Who has read the end is answered 204. Of a turn of another process on the same SQLite file it tells what is stored, about once a second.",
        ...ofSession,
        answer: ["The stream.", s.text(), "text/event-stream"],
        empty: "The end was read already.",
        async handle(request) {
          const { incoming, outgoing } = request;
          refuseHead(incoming);
          const { chat, session } = await find(request);
          const node = forwarder && (await store.chat.nodeOf(session.id));
          if (node !== store.instance.id && forwarder?.mayForward(node, incoming)) {
            await forwarder.forward(node, incoming, outgoing);
            return sent;
          }
          return resumeTurn(chat, session, incoming, outgoing, heartbeat);
        },
      },
    ),
    route(
      "POST /api/chat/sessions/{id}/stop",
      "stopChatTurn",
      "Ends the turn under way: the model's answer, and its calls",
      {
        ...ofSession,
        answer: ["`stopped` is false when nothing was under way.", s.object({ stopped: s.boolean() })],
        async handle(request) {
          const { chat, session } = await find(request);
          return { stopped: await chat.stop(session.id) };
        },
      },
    ),
  ];
}

function sessionView({ state, ...rest }: ChatSession): Record<string, unknown> {
  return { ...rest, system: state.system };
}

/** The named schemas of conversations in `/openapi.json`. */
export const chatSchemas = {
  ChatSession: s.object({
    id: s.text(),
    title: s.text("The beginning of the first message, unless it was given one."),
    model: s.text("Empty for the usual one."),
    "expert?": s.text(),
    "system?": s.text("What the model is told at the beginning."),
    owner: s.text("The id of the token that it belongs to."),
    createdAt: s.moment(),
    updatedAt: s.moment(),
    running: s.boolean("Whether a message is being answered."),
  }),
  ChatMessage: s.object({
    id: s.text(),
    sessionId: s.text(),
    position: s.integer(),
    role: s.choice(["user", "assistant"]),
    status: s.choice(["running", "completed", "stopped", "interrupted", "error"]),
    createdAt: s.moment(),
    updatedAt: s.moment(),
    "content?": {
      description: "Of a user's message: text, or parts as Chat Completions has them.",
      anyOf: [s.text(), s.list(s.object({ type: s.text(), "text?": s.text() }))],
    },
    "provider?": s.text(),
    "model?": s.text(),
    "unread?": s.integer(
      "Set when the message is too large to be read: its bytes. What it says is a note about that.",
    ),
    "parts?": s.list(
      { anyOf: [s.ref("ChatTextPart"), s.ref("ChatToolPart")] },
      "Of an answer: `text`, `reasoning`, `refusal` and `tool` parts; a `tool` part has the call's state.",
    ),
    "requests?": s.list(
      s.object({
        round: s.integer(),
        provider: s.text(),
        model: s.text(),
        messages: s.integer("How many messages the model was sent."),
        tools: s.integer("How many tools it was offered."),
        "compacted?": s.integer("How many old results and images had given way to a line."),
        "images?": s.integer("How many images it read a line in place of, because it takes none."),
        "instead?": s.text("Why the model that should have answered did not."),
      }),
      "Which models were asked for this answer, and what they were shown, in order.",
    ),
    "usage?": s.object({
      "prompt_tokens?": s.number(),
      "completion_tokens?": s.number(),
      "total_tokens?": s.number(),
      "cost?": s.number("By the prices of the config, or else as the provider tells; absent without either."),
    }),
    "end?": s.object({ reason: s.text(), "message?": s.text(), "code?": s.text() }, "Why the turn ended."),
  }),
  ChatTextPart: s.object({ type: s.choice(["text", "reasoning", "refusal"]), text: s.text() }),
  ChatToolPart: s.object({
    type: s.constant("tool"),
    id: s.text("The model's id of the call."),
    callId: s.text("The rack's, by which its record is found."),
    name: s.text(),
    displayName: s.text(),
    arguments: s.text("As the model wrote them."),
    state: s.object({
      status: s.choice(["pending", "running", "completed", "error"]),
      "title?": s.text(),
      "output?": s.text(),
      "error?": s.text(),
      "attachments?": s.list(s.ref("FilePart")),
      "time?": s.object({ start: s.moment(), "end?": s.moment() }),
    }),
  }),
};
