import type { ChatSession, ChatStore } from "../../store/chat/chat-store.ts";
import type { ActiveTurn } from "./active-turn.ts";
import { type AssistantBody, assistantBody, toHistory } from "./chat-message-body.ts";
import type { ChatService } from "./chat-service.ts";
import type { ModelEndpoint } from "./model/endpoint.ts";
import { callIdsOf, firstWords, instructions } from "./session-history.ts";
import { TextSaver } from "./text-saver.ts";
import type { ChatReach } from "./tools/reach.ts";
import type { Turn } from "./turn/turn.ts";
import type { TurnEnd } from "./turn/turn-event.ts";
import { settleOpenCalls } from "./turn/turn-loop.ts";
import type { TurnWriter } from "./turn-writer.ts";

/** Has the last message of a session answered, and keeps what comes. */
export class TurnRunner {
  readonly #chat: ChatService;
  readonly #store: ChatStore;
  readonly #writer: TurnWriter;

  constructor(chat: ChatService, store: ChatStore, writer: TurnWriter) {
    this.#chat = chat;
    this.#store = store;
    this.#writer = writer;
  }

  /** Never rejects. */
  async run(
    session: ChatSession,
    active: ActiveTurn,
    reach: ChatReach,
    endpoint: ModelEndpoint,
    headers?: Turn["headers"],
  ): Promise<void> {
    const { message, parts, feed } = active;
    const chat = this.#chat;
    const { usage } = assistantBody(message);
    let body: AssistantBody = {
      provider: endpoint.provider,
      model: endpoint.model,
      parts,
      ...(usage && { usage }),
    };
    const saver = new TextSaver(() => this.#writer.save(message, body, "running"));
    let end: TurnEnd;
    let changes = {};
    try {
      const earlier = (await this.#store.listMessages(session.id)).filter(
        ({ position }) => position < message.position,
      );
      const offered = await chat.tools.getTools(reach, {
        budget: chat.toolBudget,
        query: firstWords(earlier),
        chosen: session.state.tools,
      });
      const known = callIdsOf(earlier);
      const loop = chat.loop({
        id: message.id,
        sessionID: session.id,
        reach,
        endpoint,
        history: [...instructions(session, reach), ...toHistory(earlier, endpoint.images)],
        body: {},
        offered,
        clientTools: [],
        parts,
        limits: chat.limits,
        usage,
        contextTokens: chat.contextTokens(endpoint),
        compacted: session.state.compacted ?? [],
        callIdOf: (id) => known.get(id),
        signal: active.stopping.signal,
        leaving: active.leaving.signal,
        ...(headers === undefined ? {} : { headers }),
        emit: (event) => {
          feed.publish(event.type, event);
          if (event.type === "usage") body = { ...body, usage: event.total };
          if ("text" in event) saver.touch();
        },
        save: () => saver.save(),
      });
      end = await loop.run();
      body = { ...body, usage: loop.usage };
      changes = {
        ...(offered.chosen === undefined ? {} : { tools: offered.chosen }),
        ...(loop.compacted.length === 0 ? {} : { compacted: loop.compacted }),
      };
    } catch (thrown) {
      end = this.#writer.endOf(thrown, active);
      if (end.reason !== "interrupted") settleOpenCalls(parts);
    }
    await saver.end();
    if (Object.keys(changes).length > 0) {
      const state = { ...session.state, ...changes };
      await chat.sessions.update(session, { state }).catch((error) => this.#writer.complain(error));
    }
    await this.#writer.conclude(active, body, end);
  }
}
