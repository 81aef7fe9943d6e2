import type { CallClient, ClientMethod } from "@toolrack/core";

const askable: ReadonlySet<string> = new Set<ClientMethod>([
  "elicitation/create",
  "sampling/createMessage",
  "roots/list",
]);

export function isClientMethod(method: string): method is ClientMethod {
  return askable.has(method);
}

/** What we say that we can do where it must be said once for all callers: everything. */
export const allCapabilities = {
  elicitation: { form: {}, url: {} },
  sampling: {},
  roots: {},
} as const;

/** The capabilities of a caller, for servers that are told them with every request. */
export function capabilitiesOf(client: CallClient | undefined): object {
  if (client === undefined) return none;
  return {
    ...(client.can("elicitation/create") ? { elicitation: allCapabilities.elicitation } : {}),
    ...(client.can("sampling/createMessage") ? { sampling: allCapabilities.sampling } : {}),
    ...(client.can("roots/list") ? { roots: allCapabilities.roots } : {}),
  };
}

const none = Object.freeze({});

export function cannotAsk(method: string): string {
  return `The caller of this tool cannot be asked (${method}). Call it from a client that answers such questions, or give what it needs as arguments.`;
}
