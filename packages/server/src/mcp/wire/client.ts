import type { ClientMethod } from "@toolrack/core";
import * as s from "../../helpers/schema.ts";

/** Which kind of MCP a client speaks: `legacy` has a handshake and sessions, `modern` has neither. */
export type Era = "legacy" | "modern";

/** A program that has spoken to the rack over MCP, as the API shows it. `stdio`: it has joined the server by `toolrack mcp`. */
export const connectedClient = s.object(
  {
    name: s.text(),
    "version?": s.text(),
    transport: s.choice(["http", "stdio"]),
    era: s.choice(["legacy", "modern"], "`modern`: version 2026-07-28 of the protocol."),
    caller: s.text("Which token it bears, as records name it."),
    "expert?": s.text("The expert that it uses instead of the whole rack."),
    lastSeenAt: s.moment(),
    "stale?": s.boolean("It listed the tools before they changed last, and has not since."),
  },
  "A program that has spoken to the rack over MCP.",
);
export type ConnectedClient = s.ValueOf<typeof connectedClient>;

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
