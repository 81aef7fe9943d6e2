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

/** A caller as it is asked what it can answer. Not every one looks at the question itself; then the method decides. */
interface Askable {
  can(method: ClientMethod, params?: object): boolean;
}

/** Whether the caller can be asked this very question. */
export function canAnswer(client: Askable | undefined, method: ClientMethod, params: object): boolean {
  return client?.can(method, params) === true;
}

/** The capabilities of a caller, for servers that are told them with every request. */
export function capabilitiesOf(client: Askable | undefined): object {
  if (client === undefined) return none;
  const form = client.can("elicitation/create", { mode: "form" });
  const url = client.can("elicitation/create", { mode: "url" });
  return {
    ...(form || url ? { elicitation: { ...(form ? { form: {} } : {}), ...(url ? { url: {} } : {}) } } : {}),
    ...(client.can("sampling/createMessage") ? { sampling: allCapabilities.sampling } : {}),
    ...(client.can("roots/list") ? { roots: allCapabilities.roots } : {}),
  };
}

/** Whether a question of a server could reach anybody at the other end. */
export function canBeAsked(client: Askable | undefined): boolean {
  return client !== undefined && Object.keys(capabilitiesOf(client)).length > 0;
}

const none = Object.freeze({});

export function cannotAsk(method: string): string {
  return `The caller of this tool cannot be asked (${method}). Call it from a client that answers such questions, or give what it needs as arguments.`;
}

export function nobodyToAsk(method: string): string {
  return `The caller cannot be asked (${method}): other calls are under way or were given up a moment ago, and the question does not say which call it belongs to. Call the tool again when those have ended, or give what it needs as arguments.`;
}

export function nobodyCalls(method: string): string {
  return `Nobody can be asked (${method}): no call is under way, and only who calls a tool can answer questions of its server. Ask while a call is being worked on.`;
}

/** Questions of a server that may wait for their answers at a time. */
export const MOST_OPEN = 100;

/** `server` is its key. */
export function tooManyOpen(server: string): string {
  return `${MOST_OPEN} questions of the MCP server "${server}" wait for their answers already, and no more are put to callers at a time. Ask again when some of them are answered.`;
}

export function tooManyAtOnce(count: number, server: string): string {
  return `The MCP server "${server}" asked ${count} questions at once, and a caller is asked at most ${MOST_OPEN}. None of them was put. Ask it for less at one time, or tell whoever runs it.`;
}

/** Puts a question to a caller, for at most `limit` milliseconds: nobody waits for an answer for ever. */
export async function askWithin(
  limit: number,
  client: CallClient,
  { method, params, signals }: { method: ClientMethod; params: object; signals: readonly AbortSignal[] },
): Promise<unknown> {
  const late = new AbortController();
  const timer = setTimeout(() => {
    late.abort(new Error(`Nobody answered the question within ${limit / 1_000} s.`));
  }, limit);
  timer.unref();
  try {
    return await client.request(method, params, AbortSignal.any([late.signal, ...signals]));
  } finally {
    clearTimeout(timer);
  }
}
