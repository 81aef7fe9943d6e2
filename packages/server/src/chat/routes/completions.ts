import type { IncomingMessage, ServerResponse } from "node:http";
import { v7 as uuid } from "uuid";
import type { HttpExtension } from "../../http/wire/index.ts";
import {
  callerGone,
  HttpError,
  jsonText,
  openEventStream,
  type Route,
  type RouteRequest,
  routesFor,
  s,
  sent,
} from "../../http/wire/index.ts";
import type { ChatService } from "../chat-service.ts";
import { CompletionMarks, CompletionRuns, identify, offersFunctions } from "../completion-runs.ts";
import {
  type Completion,
  type CompletionRequest,
  completionRequestSchema,
  unsupported,
  wantsJson,
} from "../completion-service.ts";
import { answerText, ChunkMaker, finishReason, separator, toCompletion } from "../completion-shape.ts";
import type { ListedModel } from "../model/providers.ts";
import { requestedReach } from "../tools.ts";
import { type TurnEvent, textOfParts } from "../turn/events.ts";
import { chatRoutes, chatSchemas } from "./chat.ts";
import type { ChatRouteParts } from "./chat-stream.ts";
import { errorOfEnd, requireChat, sayingWhy } from "./chat-stream.ts";

/** Conversations and the OpenAI-compatible endpoint over HTTP. Without a chat the routes say how to configure one. */
export function chatExtension(chat?: ChatService): HttpExtension {
  return {
    schemas: chatSchemas,
    routes: (parts) =>
      [...completionRoutes({ ...parts, chat }), ...chatRoutes({ ...parts, chat })].map(sayingWhy),
    async grantsChanged() {
      await chat?.dropUnwelcome();
    },
  };
}

/** What OpenAI's clients expect of their server. The rack's tools are run on the way. */
function completionRoutes(parts: ChatRouteParts): Route[] {
  const marks = new CompletionMarks(parts.store.chat, parts.logger);
  const runs = new CompletionRuns((identity) => marks.add(identity));
  const findModel = async (wanted: string) => {
    const { providers } = requireChat(parts);
    const listed = await providers.list();
    const found = listed.find(({ id }) => id === wanted);
    if (found !== undefined) return modelView(found);
    // A request may call it by another name.
    const { provider, model } = await providers.resolve(wanted);
    const own = listed.filter((one) => one.provider === provider);
    const isListed = own.some(({ id }) => id === model || id === `${provider}/${model}`);
    // A provider that lists nothing may have any.
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
      errors: [
        "stopping",
        "provider_missing",
        "provider_refused",
        "provider_busy",
        "provider_failed",
        "provider_unauthorized",
        "model_not_found",
        "expert_not_found",
        "chat_cancelled",
        "chat_forbidden",
      ],
      handle: (request) => complete(parts, { runs, marks }, request),
    }),
  ];
}

async function complete(
  parts: ChatRouteParts,
  { runs, marks }: { readonly runs: CompletionRuns; readonly marks: CompletionMarks },
  { body, grant, incoming, outgoing }: RouteRequest<unknown, unknown, CompletionRequest>,
): Promise<unknown> {
  const chat = requireChat(parts);
  const named = body.toolrack?.expert ?? header(incoming, "x-toolrack-expert");
  const reach = requestedReach(parts, grant, named);
  const tellsEvents =
    body.toolrack?.events === true || /^(1|true|on)$/i.test(header(incoming, "x-toolrack-events") ?? "");
  const endpoint = await chat.providers.resolve(body.model ?? undefined);
  const problem = unsupported(body, endpoint);
  if (problem !== undefined) throw new HttpError("invalid_request", problem);
  const identity = identify(incoming.headers, grant.id, body);
  const gone = callerGone(incoming, outgoing);
  try {
    let known = runs.find(identity);
    if (known === undefined && !runs.knows(identity)) {
      await marks.refuseRepeated(identity);
      // The same may have come once more meanwhile.
      known = runs.find(identity);
    }
    // OpenAI's clients send again only what was not answered at all; who gives it a key may do so any time.
    const mayReturn = () => identity?.isKeyed === true || !outgoing.headersSent;
    const reader = { gone: gone.signal, mayReturn };
    const stream = body.stream
      ? new CompletionStream(outgoing, body, body.model || endpoint.model, tellsEvents)
      : undefined;
    const run =
      known ??
      runs.begin(identity, (run) =>
        chat.completions.complete(body, { reach, headers: incoming.headers, ...run }),
      );
    if (stream === undefined) {
      const completion = await run.read(reader);
      const error = errorOfEnd(completion.end);
      if (error !== undefined) throw error;
      const form = { tellsEvents, isJson: wantsJson(body), isFunctions: offersFunctions(body) };
      return toCompletion(completion, form);
    }
    const alive = setInterval(stream.keepAlive, parts.settings.heartbeat);
    try {
      // Who joins later is told all of it at the end.
      const isTold = known === undefined;
      return stream.end(await run.read(isTold ? { ...reader, tell: stream.tell } : reader), isTold);
    } finally {
      clearInterval(alive);
    }
  } finally {
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

/** What a reader has not taken in yet. One that leaves more is cut off, which ends the model's answer too. */
const MOST_WAITING = 8 * 1024 * 1024;

/**
 * Writes what happens as chunks. It opens with the first of them, or with the first call, so that an early failure gets
 * a status of its own.
 */
class CompletionStream {
  readonly #outgoing: ServerResponse;
  readonly #chunks: ChunkMaker;
  readonly #tellsEvents: boolean;
  readonly #isJson: boolean;
  readonly #isFunctions: boolean;
  readonly #wantsUsage: boolean;
  /** The end of it. */
  #said = "";
  #isNewRound = false;

  constructor(outgoing: ServerResponse, body: CompletionRequest, model: string, tellsEvents: boolean) {
    this.#outgoing = outgoing;
    this.#chunks = new ChunkMaker(`chatcmpl-${uuid().replaceAll("-", "")}`, model);
    this.#tellsEvents = tellsEvents;
    this.#isJson = wantsJson(body);
    this.#isFunctions = offersFunctions(body);
    this.#wantsUsage = body.stream_options?.include_usage === true;
  }

  readonly tell = (event: TurnEvent): void => {
    // Whether a text is the last is known at the end.
    if (event.type === "text") this.#isJson || this.#text(event.text, event.logprobs);
    else if (event.type === "reasoning") this.#delta({ reasoning_content: event.text });
    else if (event.type === "refusal") this.#delta({ refusal: event.text });
    else if (this.#tellsEvents) this.#write(this.#chunks.event(event));
    if (event.type !== "call") return;
    this.#isNewRound = true;
    this.#open();
  };

  readonly keepAlive = (): void => {
    this.#open();
    this.#send(": alive\n\n");
  };

  /** `isTold`: what happened was told as it happened. */
  end(completion: Completion, isTold: boolean): typeof sent {
    const { end, calls, usage, facts } = completion;
    const error = errorOfEnd(end);
    if (error !== undefined) {
      if (!this.#outgoing.headersSent) throw error;
      this.#write(error.toEnvelope());
    } else {
      this.#rest(completion, isTold);
      const form = { isJson: this.#isJson, isFunctions: this.#isFunctions };
      if (calls.length > 0) this.#write(this.#chunks.calls(calls, form));
      if (this.#tellsEvents) this.#write(this.#chunks.event({ type: "end", end }));
      const { logprobs: _logprobs, annotations, ...more } = facts;
      const last = annotations === undefined ? {} : { annotations };
      this.#write({ ...this.#chunks.delta(last, finishReason(end, form)), ...more });
      if (this.#wantsUsage) this.#write(this.#chunks.usage(usage));
    }
    this.#outgoing.end("data: [DONE]\n\n");
    return sent;
  }

  #rest({ parts }: Completion, isTold: boolean): void {
    if (!isTold) {
      const reasoning = textOfParts(parts, "reasoning");
      const refusal = textOfParts(parts, "refusal");
      if (reasoning !== "") this.#delta({ reasoning_content: reasoning });
      if (refusal !== "") this.#delta({ refusal });
    }
    const text = isTold && !this.#isJson ? "" : answerText(parts, this.#isJson);
    if (text !== "") this.#delta({ content: text });
  }

  #text(text: string, logprobs: unknown): void {
    const between = this.#isNewRound ? separator(this.#said) : "";
    this.#isNewRound = false;
    this.#said = (this.#said + between + text).slice(-2);
    this.#delta({ content: between + text }, logprobs);
  }

  #delta(delta: Readonly<Record<string, unknown>>, logprobs?: unknown): void {
    this.#write(this.#chunks.delta(delta, null, logprobs));
  }

  #open(): void {
    if (this.#outgoing.headersSent) return;
    openEventStream(this.#outgoing);
    this.#outgoing.write(dataOf(this.#chunks.delta({ role: "assistant", content: "" })));
  }

  #write(chunk: unknown): void {
    this.#open();
    this.#send(dataOf(chunk));
  }

  #send(text: string): void {
    if (this.#outgoing.destroyed) return;
    this.#outgoing.write(text);
    if (this.#outgoing.writableLength > MOST_WAITING) this.#outgoing.destroy();
  }
}

function dataOf(value: unknown): string {
  return `data: ${jsonText(value)}\n\n`;
}
