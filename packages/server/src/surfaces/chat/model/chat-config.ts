import type { Config } from "../../../config/config.ts";

export type ProvidersConfig = NonNullable<Config["providers"]>;
export type ProviderConfig = ProvidersConfig[string];
export type ChatConfig = NonNullable<Config["chat"]>;

/** What holds where the config says nothing. */
export const usualChat = {
  /** How often a model is asked in one turn. */
  maxRounds: 50,
  /** How long a turn may take, without the time that people take to answer. */
  maxSeconds: 900,
  /** Tokens of all requests of a turn. */
  maxTokens: 2_000_000,
  /** Characters of one answer: text, reasoning and arguments together. No model of today writes as much. */
  maxAnswer: 4_000_000,
  /** What a model can read at a time, unless its own entry says so. */
  contextTokens: 128_000,
  /** What the definitions of the tools may take of it. */
  toolBudget: 16_000,
} as const satisfies ChatConfig;
