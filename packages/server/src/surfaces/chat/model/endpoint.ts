/** One model of one provider, and how it is reached. */
export interface ModelEndpoint {
  readonly provider: string;
  /** Without a slash at the end. */
  readonly baseURL: string;
  /** The same as the config has it, for people: references stand unfilled. */
  readonly address: string;
  readonly apiKey: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  /** What must not be shown of all this, in every form in which it may be written; see `secretsOf`. */
  readonly secrets: readonly string[];
  /** What the provider calls it. */
  readonly model: string;
  /** `tags`: it has no tool calls of its own and writes them into its text. */
  readonly toolCalls: "native" | "tags";
  readonly images: boolean;
  /** How much it can read at a time. Undefined: the chat's own setting. */
  readonly contextTokens: number | undefined;
}

/** The address of something below the base, which may have a query of its own. */
export function addressBelow({ baseURL }: Pick<ModelEndpoint, "baseURL">, path: string): URL {
  const url = new URL(baseURL);
  url.pathname = url.pathname.replace(/\/+$/, "") + path;
  return url;
}

export function headersOf({ apiKey, headers }: ModelEndpoint): Record<string, string> {
  return {
    "content-type": "application/json",
    accept: "text/event-stream, application/json",
    ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
    ...headers,
  };
}
