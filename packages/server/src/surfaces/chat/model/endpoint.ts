/** One model of one provider, and how it is reached. */
export interface ModelEndpoint {
  readonly provider: string;
  /** Without a slash at the end. */
  readonly baseURL: string;
  readonly apiKey: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  /** What the provider calls it. */
  readonly model: string;
  /** `tags`: it has no tool calls of its own and writes them into its text. */
  readonly toolCalls: "native" | "tags";
  readonly images: boolean;
  /** How much it can read at a time. Undefined: the chat's own setting. */
  readonly contextTokens: number | undefined;
}
