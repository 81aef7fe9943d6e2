import type { ToolRegistry } from "@toolrack/core";
import { v7 as uuid } from "uuid";
import { masterGrant } from "../access/index.ts";
import type { Reach } from "../http/wire/index.ts";
import type { ChatMessage, ChatSession, ChatStore, Page, SessionChanges } from "../store/index.ts";
import { answered, handedFrom } from "./client-calls.ts";
import { ChatError } from "./errors.ts";
import { toModelMessages } from "./messages.ts";
import {
  type ModelContentPart,
  type ModelEndpoint,
  type ModelMessage,
  type ModelUsage,
  textOf,
} from "./model.ts";
import { digitsOf, isOutput, isReturn, type ResponseItem, toMessages } from "./response-items.ts";
import type { ResponseSettings } from "./response-request.ts";
import { isTool, type MessagePart, type ModelRequestFacts, type TurnEnd } from "./turn.ts";

const TITLE_LENGTH = 80;

export class ChatSessions {
  readonly #store: ChatStore;
  readonly #registry: Pick<ToolRegistry, "mask">;

  /** `registry`: masks the secrets of the workspace in what is stored. */
  constructor(store: ChatStore, registry: Pick<ToolRegistry, "mask">) {
    this.#store = store;
    this.#registry = registry;
  }

  /** By default the session belongs to the owner of the process. */
  create(
    { grant, expert }: Reach = { grant: masterGrant },
    { title = "", model = "", system }: { title?: string; model?: string; system?: string } = {},
  ): Promise<ChatSession> {
    const said = this.#registry.mask({ title, state: system === undefined ? {} : { system } });
    const named = expert === undefined ? {} : { expert: expert.name };
    return this.#store.addSession({ id: uuid(), owner: grant.id, model, ...named, ...said });
  }

  /**
   * Callers other than admins see only their own sessions. Throws the same `ChatError` for a session of somebody else
   * and for one that never existed.
   */
  async require({ grant }: Pick<Reach, "grant">, id: string): Promise<ChatSession> {
    const session = await this.#store.getSession(id);
    if (session !== undefined && (grant.admin || session.owner === grant.id)) return session;
    throw new ChatError("chat_session_not_found", `This token knows no conversation "${id}".`);
  }

  /** Throws `InvalidCursorError`. */
  list(
    { grant }: Pick<Reach, "grant">,
    query: { limit?: number; cursor?: string },
  ): Promise<Page<ChatSession>> {
    return this.#store.listSessions({ ...query, ...(grant.admin ? {} : { owner: grant.id }) });
  }

  async update(session: ChatSession, changes: SessionChanges): Promise<ChatSession> {
    return (await this.#store.updateSession(session.id, this.#registry.mask(changes))) ?? session;
  }

  /** A session without a title gets one from its first message. */
  async named(session: ChatSession, content: UserContent): Promise<ChatSession> {
    if (session.title !== "") return session;
    const text = textOf({ content }).trim().replaceAll(/\s+/g, " ");
    const isLong = text.length > TITLE_LENGTH;
    const title = isLong ? `${[...text].slice(0, TITLE_LENGTH - 1).join("")}…` : text;
    return this.update(session, { title });
  }
}

/** A person's message: text, or text and images in the form of Chat Completions. */
export type UserContent = string | readonly ModelContentPart[];

/** The body of a user message in the store. */
interface UserBody {
  /** What people read. */
  readonly content: UserContent;
  /** Set for the input of a response: what the model reads. */
  readonly items?: readonly ResponseItem[];
  readonly origin?: string;
}

/** The body of an assistant message in the store. */
export interface AssistantBody {
  /** The provider's name in the config. */
  readonly provider: string;
  /** The provider's name of the model. */
  readonly model: string;
  /** The name by which the model was asked for. It may stand for several models. Empty: the usual one. */
  readonly wanted?: string | undefined;
  readonly parts: MessagePart[];
  /** The requests to models, oldest first. A round in which a model failed has another one for the model asked instead. */
  readonly requests?: readonly ModelRequestFacts[];
  readonly usage?: ModelUsage;
  readonly end?: TurnEnd;
  /** Set for a response: the request without its input. */
  readonly settings?: ResponseSettings;
  /** Set for a message that was copied from another session: the digits of the original's id. */
  readonly origin?: string;
  /** Set for a response that was deleted while later ones build on it. */
  readonly deleted?: true;
}

type SaidMessage = Pick<ChatMessage, "id" | "role" | "body" | "unread">;

/** The body of a message, or a placeholder for a body that is too large to read. */
export function bodyOf({ role, body, unread }: Omit<SaidMessage, "id">): Readonly<Record<string, unknown>> {
  if (unread === undefined) return body;
  const text = `[This message is too large to be read: it takes ${Math.round(unread / 1_000_000)} MB.]`;
  return role === "user" ? { content: text } : { model: "", parts: [{ type: "text", round: 1, text }] };
}

/** Does not check the body: the store returns plain JSON that this service wrote. */
export function assistantBody(message: Omit<SaidMessage, "id">): AssistantBody {
  // `Object()` has the type `any`, so no cast is needed.
  return Object(bodyOf(message));
}

export function userBody(message: Omit<SaidMessage, "id">): UserBody {
  return Object(bodyOf(message));
}

/** The digits of the message's id; for a copy, those of the original's. */
export function originOf(message: SaidMessage): string {
  return assistantBody(message).origin ?? digitsOf(message.id);
}

interface HistoryReader extends Pick<ModelEndpoint, "images" | "provider"> {
  /** What the model is told first, for one turn only. */
  readonly instructions?: string | null | undefined;
}

/** The earlier messages of a session as the model reads them, after the system message, if there is one. */
export function toHistory(
  { state }: Pick<ChatSession, "state">,
  { expert }: Pick<Reach, "expert">,
  messages: readonly SaidMessage[],
  { images, provider, instructions }: HistoryReader,
): ModelMessage[] {
  const system = [expert?.instructions, state.system, instructions].filter(Boolean).join("\n\n");
  // Answers after a person last spoke belong to the turn that goes on.
  const current = messages.findLastIndex((message) => {
    return message.role === "user" && !isReturn(userBody(message).items ?? []);
  });
  const said = messages.flatMap((message, at): ModelMessage[] => {
    if (message.role === "user") {
      const { content, items } = userBody(message);
      if (items === undefined) return [{ role: "user", content }];
      const before = messages[at - 1];
      const origin = before && originOf(before);
      // Outputs of the calls in the previous answer are left out: they are added next to those calls.
      const isTold = (item: ResponseItem) => isOutput(item) && handedFrom(item.call_id) === origin;
      return toMessages(origin === undefined ? items : items.filter((item) => !isTold(item)));
    }
    const next = messages[at + 1];
    const outputs = next?.role === "user" ? (userBody(next).items ?? []).filter(isOutput) : [];
    const parts = answered(assistantBody(message).parts, originOf(message), outputs);
    return toModelMessages(parts, images, at > current ? provider : undefined);
  });
  return system === "" ? said : [{ role: "system", content: system }, ...said];
}

/** Maps the model's call ids to the rack's. */
export function callIdsOf(messages: readonly ChatMessage[]): Map<string, string> {
  const answers = messages.filter(({ role }) => role === "assistant");
  const calls = answers.flatMap((message) => assistantBody(message).parts.filter(isTool));
  return new Map(calls.map(({ id, callId }) => [id, callId]));
}
