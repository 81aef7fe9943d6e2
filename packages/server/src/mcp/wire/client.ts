import type { ClientMethod } from "@toolrack/core";

/** Which kind of MCP a client speaks: `legacy` has a handshake and sessions, `modern` has neither. */
export type Era = "legacy" | "modern";

/** A program that has spoken to the rack over MCP. */
export interface ConnectedClient {
  readonly name: string;
  readonly version?: string;
  /** `stdio`: a client that has joined the server by `toolrack mcp`. */
  readonly transport: "http" | "stdio";
  readonly era: Era;
  /** The name of the client's token, as in call records. */
  readonly caller: string;
  /** The expert that the client is connected to instead of the whole rack. */
  readonly expert?: string;
  /** Milliseconds since the epoch. */
  readonly lastSeenAt: number;
  /** True when the tools have changed since the client last listed them. */
  readonly stale?: true;
}

/** The name and version that a client sends about itself. */
export interface ClientInfo {
  readonly name: string;
  readonly version?: string;
}

/** The capabilities that a client declares: which questions it can answer, and which extensions it knows. */
export interface ClientAbilities {
  readonly elicitation?: { readonly form?: object; readonly url?: object };
  readonly sampling?: { readonly tools?: object };
  readonly roots?: object;
  readonly extensions?: Readonly<Record<string, unknown>>;
}

/** The capability that a question needs, such as `{ elicitation: { url: {} } }`. */
export type NeededAbility = Readonly<Record<string, Readonly<Record<string, object>>>>;

interface QuestionParams {
  readonly mode?: unknown;
  readonly tools?: unknown;
  readonly toolChoice?: unknown;
}

/**
 * The capability that this question needs and the client did not declare; undefined when nothing is missing. Without
 * `params`, the client only has to be able to answer some question of this kind.
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
      // Clients older than the two modes declare neither mode, and can show forms.
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
