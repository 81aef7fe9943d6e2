import { isDeepStrictEqual } from "node:util";
import type { ToolRegistry } from "@toolrack/core";
import { v7 as uuid } from "uuid";
import { whenAborted } from "../helpers/index.ts";
import type { ChatMessage, ChatStore, NewChatMessage } from "../store/index.ts";
import type { ActiveTurn } from "./active-turns.ts";
import type { ChatService } from "./chat-service.ts";
import { handedCalls, handedFrom } from "./client-calls.ts";
import { refuse } from "./completion-request.ts";
import { mayHaveActed } from "./completion-runs.ts";
import { type Completion, type CompletionOptions, settled } from "./completions.ts";
import { ChatError } from "./errors.ts";
import { noUsage } from "./model.ts";
import {
  fromDigits,
  gist,
  messageIdOf,
  messageIdOfItem,
  newItemId,
  type ResponseItem,
  shownText,
  toMessages,
  unpaired,
  userItem,
} from "./response-items.ts";
import { wholeOutput } from "./response-output.ts";
import { type ResponseSettings, toProviderRequest } from "./response-request.ts";
import type { RunOptions } from "./session-runner.ts";
import { assistantBody, originOf, toHistory, userBody } from "./sessions.ts";

/** A request of the Responses API, with its input as items. */
interface NewResponse {
  readonly settings: ResponseSettings;
  readonly items: readonly ResponseItem[];
}

/** Where a new response belongs: behind these messages of a session, and what it adds to them. */
interface Place {
  readonly messages: readonly ChatMessage[];
  readonly items: readonly ResponseItem[];
}

type Work = Pick<CompletionOptions, "reach" | "headers">;

/**
 * The Responses API over the conversations that the server keeps: a response is the answer of one turn, its id that of
 * the stored message, and a chain of responses is a session.
 */
export class Responses {
  readonly #chat: ChatService;
  readonly #store: ChatStore;
  readonly #registry: ToolRegistry;

  constructor(chat: ChatService, store: ChatStore, registry: ToolRegistry) {
    this.#chat = chat;
    this.#store = store;
    this.#registry = registry;
  }

  /**
   * Answers a request and resolves at the end of the answer. With `store: false` nothing is kept. Throws `HttpError`,
   * `ChatError` and `ProviderError`.
   */
  async answer(request: NewResponse, options: CompletionOptions): Promise<Completion> {
    if (request.settings.store === false) return this.#answerUnstored(request, options);
    const { signal, emit, beforeCalls } = options;
    const turn = await this.#begin(request, options, beforeCalls);
    turn.feed.follow(0, ({ data }) => emit(data));
    whenAborted(signal, () => turn.stop(String(signal.reason)));
    const completion = this.read(await turn.done);
    return { ...completion, ...settled(completion.end, options) };
  }

  /** Stores the request and begins its answer, which goes on even if nobody reads it. */
  async #begin(
    { settings, items }: NewResponse,
    { reach, headers }: Work,
    beforeCalls: RunOptions["beforeCalls"],
  ): Promise<ActiveTurn> {
    const { grant } = reach;
    const place = await this.#place({ settings, items }, reach);
    const message = {
      content: shownText(place.items),
      items: place.items,
      settings,
      headers,
      beforeCalls,
      ...(settings.model ? { model: settings.model } : {}),
    };
    const last = place.messages.at(-1);
    const session = last && (await this.#chat.sessions.require(reach, last.sessionId));
    // Another expert than that of the conversation has other tools, so it goes on in a copy. So does an admin who goes on
    // with what somebody else's model said.
    const isSame = reach.expert === undefined || session?.expert === reach.expert.name;
    if (session && session.owner === grant.id && isSame && (await this.#isLast(last))) {
      try {
        return await this.#chat.handleStream(session, message, grant);
      } catch (thrown) {
        // Another request has begun a turn in this session first. This request goes on in a copy of the session.
        if (!(thrown instanceof ChatError) || thrown.code !== "chat_busy") throw thrown;
      }
    }
    const own = session && isSame ? this.#chat.reachOf(grant, session.expert) : reach;
    const created = await this.#chat.sessions.create(own);
    const earlier = place.messages.map(copyOf);
    return this.#chat.handleStream(created, { ...message, earlier }, grant);
  }

  /** The stored answer with this response id. Throws the same `ChatError` for one of somebody else. */
  async require({ grant }: Pick<Work["reach"], "grant">, id: string, param = "id"): Promise<ChatMessage> {
    const messageId = messageIdOf(id);
    const message = messageId === undefined ? undefined : await this.#store.getMessage(messageId);
    const isShown = message?.role === "assistant" && assistantBody(message).deleted !== true;
    const owned = isShown && (await this.#store.getSession(message.sessionId));
    if (owned && (grant.admin || owned.owner === grant.id)) return this.#current(message);
    throw new ChatError(
      "response_not_found",
      `This token knows no response "${id}". Responses are kept unless they were made with \`store: false\`, deleted, or grew too old.`,
      param,
    );
  }

  /** A stored answer in the form that the turn engine has for answers. */
  read(message: ChatMessage): Completion {
    const { model, parts, usage, end = { reason: "interrupted" }, settings } = assistantBody(message);
    return {
      id: `resp_${originOf(message)}`,
      model: settings?.model || model,
      sessionID: message.sessionId,
      parts,
      usage: usage ?? noUsage,
      facts: {},
      end,
      calls: end.reason === "client_tools" ? handedCalls(parts, originOf(message)) : [],
      hasActed: mayHaveActed(this.#registry, parts),
    };
  }

  /** The input of a response, with ids. */
  async listInput(response: ChatMessage): Promise<ResponseItem[]> {
    const before = { before: response.position, limit: 1 };
    const [message] = (await this.#store.pageMessages(response.sessionId, before)).items;
    return message?.role === "user" ? this.#itemsOf(message) : [];
  }

  /** Ends the work on a response, in whichever process it runs. */
  async cancel(message: ChatMessage): Promise<ChatMessage> {
    if (message.status !== "running") return message;
    await this.#chat.stop(message.sessionId);
    return (await this.#store.getMessage(message.id)) ?? message;
  }

  /**
   * Makes a response unknown. Later responses that build on it keep what was said; the last one that is deleted takes
   * the whole conversation with it.
   */
  async remove(message: ChatMessage): Promise<void> {
    const { id, sessionId, status } = await this.cancel(message);
    const all = await this.#store.listMessages(sessionId);
    const isNeeded = all.some((other) => {
      const { deleted, origin } = assistantBody(other);
      return other.id !== id && other.role === "assistant" && !deleted && origin === undefined;
    });
    if (!isNeeded) return this.#chat.removeSession(sessionId);
    const body = { ...all.find((one) => one.id === id)?.body, deleted: true };
    await this.#store.saveMessage(id, { status, body });
  }

  /** The items of a message, as a client knows them. */
  #itemsOf(message: ChatMessage): ResponseItem[] {
    if (message.role === "user") {
      const { items, content } = userBody(message);
      const digits = originOf(message);
      return (items ?? [userItem(content)]).map((item, at) => ({
        ...item,
        id: item.id ?? newItemId(item.type, digits, at),
      }));
    }
    return wholeOutput(this.read(message), assistantBody(message).settings ?? {}).items;
  }

  /** Reads a message that is still being written again from the store, with the parts that are there by now. */
  async #current(message: ChatMessage): Promise<ChatMessage> {
    if (message.status !== "running") return message;
    const { items } = await this.#chat.listMessages(message.sessionId, { limit: 2 });
    return items.find(({ id }) => id === message.id) ?? message;
  }

  async #isLast({ sessionId, id }: ChatMessage): Promise<boolean> {
    const [last] = (await this.#store.pageMessages(sessionId, { limit: 1 })).items;
    return last?.id === id;
  }

  async #answerUnstored(request: NewResponse, options: CompletionOptions): Promise<Completion> {
    const { settings } = request;
    const { reach } = options;
    const { messages, items } = await this.#place(request, reach);
    const { endpoint } = options;
    const { tools, body } = toProviderRequest(settings);
    const said = [...messages, { id: uuid(), role: "user", body: { items } } as const];
    // `complete` adds the instructions of the expert.
    const asked = toHistory({ state: {} }, {}, said, { ...endpoint, instructions: settings.instructions });
    const model = settings.model ?? null;
    return this.#chat.complete({ ...body, model, messages: asked, tools: tools ?? [] }, options);
  }

  /** Finds the conversation that a request goes on with. Throws `HttpError` and `ChatError`. */
  async #place({ settings, items }: NewResponse, reach: Work["reach"]): Promise<Place> {
    const given = await this.#withoutReferences(items, reach);
    const { previous_response_id: id } = settings;
    const previous = id ? await this.require(reach, id, "previous_response_id") : undefined;
    if (previous?.status === "running")
      throw new ChatError("chat_busy", `The response "${id}" is still being written. Wait, or cancel it.`);
    const place = previous
      ? { messages: await this.#upTo(previous), items: given }
      : ((await this.#continued(given, reach)) ?? { messages: [], items: given });
    if (toMessages(place.items).length === 0) refuse("input", "`input` has nothing that could be answered.");
    const last = place.messages.at(-1);
    const problem = unpaired([...(last ? this.#itemsOf(last) : []), ...place.items]);
    if (problem !== undefined) refuse("input", problem);
    return place;
  }

  /**
   * Recognises a client that sends the whole conversation each time: when it is word for word what is stored, the
   * request goes on there, where the model also remembers the rack's own calls.
   */
  async #continued(items: readonly ResponseItem[], { grant }: Work["reach"]): Promise<Place | undefined> {
    const ids = items.map(
      ({ id, call_id }) => messageIdOfItem(String(id)) ?? fromDigits(handedFrom(call_id) ?? ""),
    );
    const lastId = ids.findLast((id) => id !== "");
    const last = lastId === undefined ? undefined : await this.#store.getMessage(lastId);
    const session = last?.role === "assistant" && (await this.#store.getSession(last.sessionId));
    if (!last || !session || session.owner !== grant.id || last.status === "running") return undefined;
    const messages = await this.#upTo(last);
    const known = messages
      .flatMap((message) => this.#itemsOf(message))
      .map(gist)
      .filter(isSaid);
    let left = known.length;
    const next = items.findIndex((item) => isSaid(gist(item)) && left-- === 0);
    if (next < 0) return undefined;
    const said = items.slice(0, next).map(gist).filter(isSaid);
    return isDeepStrictEqual(said, known) ? { messages, items: items.slice(next) } : undefined;
  }

  async #upTo({ sessionId, position }: ChatMessage): Promise<ChatMessage[]> {
    const all = await this.#store.listMessages(sessionId);
    return all.filter((message) => message.position <= position);
  }

  /** Replaces references by the items that they mean. Throws `HttpError` for one that is not known. */
  #withoutReferences(items: readonly ResponseItem[], { grant }: Work["reach"]): Promise<ResponseItem[]> {
    const resolved = items.map(async (item, at) => {
      if (item.type !== "item_reference") return item;
      const messageId = messageIdOfItem(String(item.id));
      const message = messageId && (await this.#store.getMessage(messageId));
      const session = message && (await this.#store.getSession(message.sessionId));
      const isOwn = session && (grant.admin || session.owner === grant.id);
      const isKept = isOwn && assistantBody(message).deleted !== true;
      const found = isKept ? this.#itemsOf(message).find(({ id }) => id === item.id) : undefined;
      if (found !== undefined) return found;
      const text = `input[${at}] refers to the item "${item.id}", which is not kept here. Send the item itself.`;
      return refuse(`input[${at}].id`, text);
    });
    return Promise.all(resolved);
  }
}

/** A message for another session. Its items keep their ids. */
function copyOf(message: ChatMessage): NewChatMessage {
  const { role, status, body } = message;
  return { id: uuid(), role, status, body: { ...body, origin: originOf(message) } };
}

function isSaid(one: unknown): boolean {
  return one !== undefined;
}
