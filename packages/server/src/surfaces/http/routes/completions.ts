import type { IncomingMessage, ServerResponse } from "node:http";
import { v7 as uuid } from "uuid";
import type { Grant } from "../../../auth/grant.ts";
import { type CompletionRequest, completionRequestSchema } from "../../chat/completion-request.ts";
import type { Completion } from "../../chat/completion-service.ts";
import { ChunkMaker, finishReason, separator, toCompletion } from "../../chat/completion-shape.ts";
import { type ChatReach, chatReach } from "../../chat/tools/reach.ts";
import type { TurnEvent } from "../../chat/turn/turn-event.ts";
import { callerGone } from "../caller-gone.ts";
import { openEventStream } from "../events/event-stream.ts";
import { findExpert } from "../expert-access.ts";
import { jsonText } from "../json-text.ts";
import type { HttpParts } from "../parts.ts";
import { defineRoute, type Reply, type Route } from "../route.ts";
import { errorOfEnd, requireChat, sayingWhy } from "./chat-errors.ts";

/** What OpenAI's clients expect of their server. The rack's tools are run on the way. */
export function completionRoutes(parts: HttpParts): Route[] {
  return [
    defineRoute({
      method: "GET",
      path: "/v1/models",
      id: "listModels",
      tag: "chat",
      summary: "The models of all providers, as OpenAI lists them",
      access: "token",
      responses: { 200: { description: "The list.", schema: { type: "object" } } },
      errors: ["provider_missing"],
      handle: () =>
        sayingWhy(async () => {
          const models = await requireChat(parts).providers.list();
          const data = models.map(({ id, provider }) => ({
            id,
            object: "model",
            created: 0,
            owned_by: provider,
          }));
          return { body: { object: "list", data } };
        }),
    }),
    defineRoute<object, object, CompletionRequest>({
      method: "POST",
      path: "/v1/chat/completions",
      id: "createChatCompletion",
      tag: "chat",
      summary: "Asks a model that has the rack's tools",
      description:
        "Takes and answers what OpenAI's Chat Completions do, streamed or not. The tools within the token's reach are offered to the model and run here; `tools` of the request are offered too, and handed back when the model calls them. Send `X-Toolrack-Events: 1`, or `toolrack: {events: true}`, to be told of the tools that are run. Closing the connection ends all of it.",
      access: "token",
      body: { required: true, schema: completionRequestSchema },
      responses: {
        200: [
          { description: "The answer.", schema: { type: "object" } },
          { description: "Or its chunks.", contentType: "text/event-stream", schema: { type: "string" } },
        ],
      },
      errors: [
        "stopping",
        "provider_missing",
        "provider_refused",
        "provider_busy",
        "provider_failed",
        "provider_unauthorized",
        "model_not_found",
        "expert_not_found",
      ],
      handle: ({ body, grant, incoming, outgoing }) =>
        sayingWhy(() => complete(parts, body, grant, incoming, outgoing)),
    }),
  ];
}

async function complete(
  parts: HttpParts,
  body: CompletionRequest,
  grant: Grant,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
): Promise<Reply> {
  const chat = requireChat(parts);
  const reach = reachOf(parts, grant, body, incoming);
  const tellsEvents =
    body.toolrack?.events === true || /^(1|true|on)$/i.test(header(incoming, "x-toolrack-events") ?? "");
  const endpoint = await chat.providers.resolve(body.model);
  const gone = callerGone(incoming, outgoing);
  const options = { reach, signal: gone.signal, headers: incoming.headers };
  try {
    if (!body.stream) {
      const completion = await chat.completions.complete(body, options);
      const error = errorOfEnd(completion.end);
      if (error !== undefined) throw error;
      return { body: toCompletion(completion, tellsEvents) };
    }
    const stream = new CompletionStream(outgoing, body, body.model || endpoint.model, tellsEvents);
    const alive = setInterval(() => stream.keepAlive(), parts.settings.heartbeat);
    try {
      return stream.end(
        await chat.completions.complete(body, { ...options, emit: (event) => stream.tell(event) }),
      );
    } finally {
      clearInterval(alive);
    }
  } finally {
    gone.release();
  }
}

/** Writes what happens as chunks. It opens with the first of them, so that an early failure gets a status of its own. */
class CompletionStream {
  readonly #outgoing: ServerResponse;
  readonly #chunks: ChunkMaker;
  readonly #tellsEvents: boolean;
  readonly #wantsUsage: boolean;
  /** The end of it. */
  #said = "";
  #isNewRound = false;

  constructor(outgoing: ServerResponse, body: CompletionRequest, model: string, tellsEvents: boolean) {
    this.#outgoing = outgoing;
    this.#chunks = new ChunkMaker(`chatcmpl-${uuid().replaceAll("-", "")}`, model);
    this.#tellsEvents = tellsEvents;
    this.#wantsUsage = body.stream_options?.include_usage === true;
  }

  tell(event: TurnEvent): void {
    if (event.type === "text") this.#text(event.text);
    else if (event.type === "reasoning") this.#write(this.#chunks.delta({ reasoning_content: event.text }));
    else if (event.type === "refusal") this.#write(this.#chunks.delta({ refusal: event.text }));
    else if (this.#tellsEvents) this.#write(this.#chunks.event(event));
    if (event.type === "call") this.#isNewRound = true;
  }

  keepAlive(): void {
    this.#open();
    this.#outgoing.write(": alive\n\n");
  }

  end({ end, calls, usage }: Completion): Reply {
    const error = errorOfEnd(end);
    if (error !== undefined) {
      if (!this.#outgoing.headersSent) throw error;
      this.#write(error.toEnvelope());
    } else {
      if (calls.length > 0) this.#write(this.#chunks.calls(calls));
      if (this.#tellsEvents) this.#write(this.#chunks.event({ type: "end", end }));
      this.#write(this.#chunks.delta({}, finishReason(end)));
      if (this.#wantsUsage) this.#write(this.#chunks.usage(usage));
    }
    this.#outgoing.end("data: [DONE]\n\n");
    return "sent";
  }

  #text(text: string): void {
    const between = this.#isNewRound ? separator(this.#said) : "";
    this.#isNewRound = false;
    this.#said = (this.#said + between + text).slice(-2);
    this.#write(this.#chunks.delta({ content: between + text }));
  }

  #open(): void {
    if (this.#outgoing.headersSent) return;
    openEventStream(this.#outgoing);
    this.#outgoing.write(dataOf(this.#chunks.delta({ role: "assistant", content: "" })));
  }

  #write(chunk: unknown): void {
    this.#open();
    this.#outgoing.write(dataOf(chunk));
  }
}

function dataOf(value: unknown): string {
  return `data: ${jsonText(value)}\n\n`;
}

/** As the expert that the request names, or as the only one that the token is for. */
function reachOf(
  { skills, registry }: HttpParts,
  grant: Grant,
  { toolrack }: CompletionRequest,
  incoming: IncomingMessage,
): ChatReach {
  const named = toolrack?.expert ?? header(incoming, "x-toolrack-expert");
  if (named !== undefined) return chatReach(grant, findExpert(grant, skills.experts, named));
  if (grant.admin || registry.list().some(({ name }) => grant.mayUse(name))) return chatReach(grant);
  const own = skills.experts
    .list()
    .filter(({ name, id }) => grant.mayUseExpert(name) || grant.mayUseExpert(id));
  return chatReach(grant, own.length === 1 ? own[0] : undefined);
}

function header({ headers }: IncomingMessage, name: string): string | undefined {
  const value = headers[name];
  return typeof value === "string" && value !== "" ? value : undefined;
}
