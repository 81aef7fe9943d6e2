import type { ClientMethod } from "@toolrack/core";

/** What the other end said that it can be asked, as MCP has it. */
export interface ClientAbilities {
  readonly elicitation?: object;
  readonly sampling?: object;
  readonly roots?: object;
  readonly extensions?: Readonly<Record<string, unknown>>;
}

/** What a question needs: `{ elicitation: { url: {} } }`. */
export type NeededAbility = Readonly<Record<string, Readonly<Record<string, object>>>>;

/**
 * What a client would have to be able to do for this question and did not say that it can; undefined when nothing is
 * missing. Without `params` it is asked whether there is any question of this kind that it can answer.
 */
export function missingAbility(
  abilities: ClientAbilities,
  method: ClientMethod,
  params?: object,
): NeededAbility | undefined {
  switch (method) {
    case "elicitation/create":
      return missingMode(abilities.elicitation, params);
    case "sampling/createMessage":
      return missingTools(abilities.sampling, params);
    case "roots/list":
      return abilities.roots === undefined ? { roots: {} } : undefined;
  }
}

function missingMode(declared: Declared, params: object | undefined): NeededAbility | undefined {
  if (declared === undefined) return { elicitation: {} };
  if (params === undefined) return undefined;
  if ((params as { mode?: unknown }).mode === "url") {
    return declared.url === undefined ? { elicitation: { url: {} } } : undefined;
  }
  // Clients from before there were modes name none, and mean forms.
  const hasForms = declared.form !== undefined || declared.url === undefined;
  return hasForms ? undefined : { elicitation: { form: {} } };
}

function missingTools(
  declared: { readonly tools?: object } | undefined,
  params: { readonly tools?: unknown; readonly toolChoice?: unknown } = {},
): NeededAbility | undefined {
  if (declared === undefined) return { sampling: {} };
  const needsTools = params.tools !== undefined || params.toolChoice !== undefined;
  return needsTools && declared.tools === undefined ? { sampling: { tools: {} } } : undefined;
}

type Declared = { readonly form?: object; readonly url?: object } | undefined;
