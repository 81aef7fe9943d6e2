/** How a tool takes part in loop detection. */
export interface LoopPolicy {
  /** What makes two calls the same: the named arguments, or whatever the function returns. */
  readonly key?: readonly string[] | ((input: Record<string, unknown>) => unknown);
  /** `"poll"`: waiting by repeating is this tool's purpose, so it gets four times the patience. */
  readonly repeatable?: "poll";
}

/** What a tool says about itself beside its schema. Unknown keys are kept and passed on. */
export interface ToolMetadata {
  readonly category?: string;
  /** What the caller must hold. `*` inside a held permission matches any run of characters. */
  readonly permissions?: readonly string[];
  /**
   * Names of tools, with `*` for any run of characters, that this one calls on behalf of whoever may use it, also of a
   * caller who could not call them directly.
   */
  readonly calls?: readonly string[];
  /** Longest run in milliseconds; 0 means no limit. */
  readonly timeout?: number;
  /** Longest silence in milliseconds; every `progress()` and `metadata()` starts it anew. */
  readonly idleTimeout?: number;
  /** Needs a person's consent before it runs. */
  readonly dangerous?: boolean;
  /** The question the person is asked. */
  readonly confirm?: string;
  readonly tags?: readonly string[];
  /** Why it is switched off and what would switch it on again, as a sentence, for whoever calls it. */
  readonly disabledReason?: string;
  /** Changes nothing: repeating it with the same result brings nothing new. */
  readonly readOnly?: boolean;
  /** May be run twice with the effect of once. */
  readonly idempotent?: boolean;
  /** Reaches systems outside the rack's control. */
  readonly openWorld?: boolean;
  /**
   * Refuse unknown arguments, at any depth, instead of dropping or keeping them. A key is unknown where the schema
   * lists the keys of an object without it and says nothing about other keys, and where parsing would lose it.
   */
  readonly strict?: boolean;
  /** A result that does not fit `outputSchema`: an error (`strict`, the default) or only a note in the record. */
  readonly outputCheck?: "strict" | "warn";
  /** `false`: never part of loop detection. */
  readonly loop?: false | LoopPolicy;
  readonly [key: string]: unknown;
}
