import type { ToolRegistry } from "@toolrack/core";
import { v7 as uuid } from "uuid";
import { masterGrant } from "../access/index.ts";
import { defined, parsedJson } from "../helpers/index.ts";
import type { NewUsage } from "../store/index.ts";
import { usageOf } from "./engine.ts";
import { type ModelEndpoint, type ModelMessage, type ModelUsage, topicOf } from "./model.ts";
import { ask, openTurn } from "./model-request.ts";
import type { Providers } from "./providers.ts";
import { usualLimits } from "./services.ts";
import { ToolsService } from "./tools.ts";
import { isSettled, isTool, type MessagePart } from "./turn.ts";

/** A question to a model whose calls nobody makes. */
interface Trial {
  readonly endpoint: ModelEndpoint;
  readonly messages: readonly ModelMessage[];
  /** The text that a call of the tool is answered with; undefined when it has none, which ends the trial. */
  readonly answerOf: (name: string) => string | undefined;
  readonly signal: AbortSignal;
}

export interface TrialOutcome {
  /** What the model called, in its order. Arguments that are no JSON stay a text. */
  readonly calls: readonly { readonly name: string; readonly arguments: unknown }[];
  readonly offered: ReadonlySet<string>;
  readonly usage: ModelUsage;
}

/** Requests to the model in one trial. */
const MOST_ROUNDS = 8;
const CONTEXT = 128_000;

interface TrialSettings {
  /** Tokens that the tool definitions may take. Default: as in a chat. */
  readonly budget?: number | undefined;
  /** Told what each request cost. */
  readonly noteUsage: (usage: NewUsage) => void;
}

/** Asks models which tools they would call, through the same requests as every turn, and runs no tool. */
export class Trials {
  readonly #tools: ToolsService;
  readonly #providers: Pick<Providers, "health">;
  readonly #settings: TrialSettings;

  constructor(registry: ToolRegistry, providers: Pick<Providers, "health">, settings: TrialSettings) {
    const run = () => Promise.reject(new Error("A trial runs no tools."));
    this.#tools = new ToolsService(registry, { run });
    this.#providers = providers;
    this.#settings = settings;
  }

  /** Throws `ProviderError`, `ChatError`, or the signal's reason. */
  async run({ endpoint, messages, answerOf, signal }: Trial): Promise<TrialOutcome> {
    const { budget, noteUsage } = this.#settings;
    const offered = await this.#tools.getTools(undefined, {
      query: topicOf(messages),
      ...defined({ budget }),
    });
    const parts: MessagePart[] = [];
    const turn = openTurn(
      {
        id: uuid(),
        sessionID: "",
        reach: { grant: masterGrant },
        endpoint,
        history: messages,
        parts,
        signal,
        emit: () => {},
      },
      CONTEXT,
      {
        offered,
        limits: usualLimits,
        leaving: signal,
        asking: signal,
        health: this.#providers.health,
        noteUsage: (asked, usage) => noteUsage(usageOf("eval", asked, usage)),
      },
    );
    for (let round = 0, isOpen = true; isOpen && round < MOST_ROUNDS; round++) {
      const { calls } = await ask(turn, round === 0);
      isOpen = calls > 0;
      for (const part of parts.filter(isTool).filter((one) => !isSettled(one))) {
        const output = answerOf(part.name);
        if (output === undefined) isOpen = false;
        else part.state = { status: "completed", input: {}, output, time: { start: 0, end: 0 } };
      }
    }
    const calls = parts.filter(isTool).map(({ id, name, arguments: written }) => {
      const call = offered.restore({ id, name, arguments: parsedJson(written) ?? written });
      return { name: call.name, arguments: call.arguments };
    });
    return { calls, offered: new Set(offered.infos.keys()), usage: turn.usage };
  }
}
