import type { ClientMethod } from "@toolrack/core";

/** Which of the two ways of MCP a client speaks: with a handshake and sessions, or without. */
export type Era = "legacy" | "modern";

/** A program that has spoken to the rack over MCP. */
export interface ConnectedClient {
  readonly name: string;
  readonly version?: string;
  readonly transport: "http";
  readonly era: Era;
  /** As records name it: which token it bears. */
  readonly caller: string;
  /** The expert that it was given instead of the whole rack. */
  readonly expert?: string;
  /** Milliseconds since the epoch. */
  readonly lastSeenAt: number;
  /** It listed the tools before they changed last, and has not since. */
  readonly stale?: true;
}

/** What a client says that it is. */
export interface ClientInfo {
  readonly name: string;
  readonly version?: string;
}

/** What a client says that it can be asked, as MCP has it. */
export interface ClientAbilities {
  readonly elicitation?: { readonly form?: object; readonly url?: object };
  readonly sampling?: { readonly tools?: object };
  readonly roots?: object;
  readonly extensions?: Readonly<Record<string, unknown>>;
}

/** What a question needs: `{ elicitation: { url: {} } }`. */
export type NeededAbility = Readonly<Record<string, Readonly<Record<string, object>>>>;

interface QuestionParams {
  readonly mode?: unknown;
  readonly tools?: unknown;
  readonly toolChoice?: unknown;
}

/**
 * What a client would have to be able to do for this question and did not say that it can; undefined when nothing is
 * missing. Without `params`: whether there is any question of this kind that it can answer.
 */
export function missingAbility(
  { elicitation, sampling, roots }: ClientAbilities,
  method: ClientMethod,
  params?: QuestionParams,
): NeededAbility | undefined {
  switch (method) {
    case "elicitation/create": {
      if (elicitation === undefined) return { elicitation: {} };
      if (params === undefined) return undefined;
      const { form, url } = elicitation;
      if (params.mode === "url") return url === undefined ? { elicitation: { url: {} } } : undefined;
      // Clients from before there were modes name none, and mean forms.
      return form !== undefined || url === undefined ? undefined : { elicitation: { form: {} } };
    }
    case "sampling/createMessage": {
      if (sampling === undefined) return { sampling: {} };
      const needsTools = params?.tools !== undefined || params?.toolChoice !== undefined;
      return needsTools && sampling.tools === undefined ? { sampling: { tools: {} } } : undefined;
    }
    case "roots/list":
      return roots === undefined ? { roots: {} } : undefined;
  }
}
