import { type ListName, metaKeys, RpcError, rpcCodes } from "../wire/index.ts";
import { invalidParams, resourceNotFound } from "./answers.ts";
import type { Caller } from "./caller.ts";
import type { McpServing } from "./mcp-services.ts";
import { parse, readerOf, uriOf } from "./offerings.ts";
import type { ClientRequest, Listener } from "./session.ts";

/** How many resources a client may watch in one request or one session. */
const MOST_WATCHED = 256;
/** How many clients may be told of changes at once. Beyond that, `subscriptions/listen` is refused. */
const MOST_LISTENERS = 1024;

const flags = {
  tools: "toolsListChanged",
  prompts: "promptsListChanged",
  resources: "resourcesListChanged",
} as const satisfies Record<ListName, string>;

/**
 * Answers `subscriptions/listen`, by which a client of the modern era is told of changes. The request stays
 * open and receives notifications, until the client or the server ends it.
 */
export async function listen(serving: McpServing, request: ClientRequest): Promise<void> {
  const { id, caller, reply } = request;
  request.stop = () => request.result({});
  let isCancelled = false;
  request.onCancel = () => {
    isCancelled = true;
  };
  const { notifications } = await parse(request, (core) => core.SubscriptionsListenRequestParamsSchema);
  if (serving.changes.size >= MOST_LISTENERS) {
    throw new RpcError(rpcCodes.internalError, "Subscription limit reached");
  }
  const watched = await watchAll(serving, caller, notifications.resourceSubscriptions ?? []);
  const stopWatching = () => {
    for (const stop of watched.values()) stop();
  };
  if (isCancelled) return stopWatching();
  const wanted = Object.values(flags).filter((flag) => notifications[flag] === true);
  const honored = {
    ...Object.fromEntries(wanted.map((flag) => [flag, true])),
    ...(watched.size > 0 ? { resourceSubscriptions: [...watched.keys()] } : {}),
  };
  const _meta = { [metaKeys.subscription]: id };
  const tell = (method: string, params: object) =>
    reply.send({ jsonrpc: "2.0", method, params: { ...params, _meta } });
  const end = () => {
    stopListening();
    stopWatching();
    request.result({ _meta });
  };
  const listener: Listener = {
    listChanged(kind) {
      if (wanted.includes(flags[kind])) tell(`notifications/${kind}/list_changed`, {});
    },
    resourceUpdated(uri) {
      if (watched.has(uri)) tell("notifications/resources/updated", { uri });
    },
    stopped: end,
  };
  request.stop = end;
  const stopListening = serving.changes.join(caller, listener);
  request.onCancel = () => {
    stopListening();
    stopWatching();
  };
  tell("notifications/subscriptions/acknowledged", { notifications: honored });
  if (Object.keys(honored).length === 0) end();
}

/** Watches the resources that exist for the caller, up to `MOST_WATCHED`. */
async function watchAll(
  { offerings }: McpServing,
  caller: Caller,
  uris: readonly string[],
): Promise<ReadonlyMap<string, () => void>> {
  const reader = caller.reader(new AbortController().signal);
  const watched = new Map<string, () => void>();
  for (const uri of new Set(uris.slice(0, MOST_WATCHED))) {
    // A resource that cannot be watched must not keep the others from being watched.
    const stop = await offerings.watchResource(uri, reader).catch(() => undefined);
    if (stop !== undefined) watched.set(uri, stop);
  }
  return watched;
}

/** The methods by which a session of the legacy era subscribes to single resources. */
export const subscriptionMethods = {
  async "resources/subscribe"({ offerings }: McpServing, request: ClientRequest): Promise<object> {
    const uri = await uriOf(request);
    const watched = request.peer.session?.watched ?? new Map<string, () => void>();
    if (watched.has(uri)) return {};
    const stop = await offerings.watchResource(uri, readerOf(request));
    if (stop === undefined) throw resourceNotFound(uri);
    // Checked after the wait: other subscriptions may have been added, and the client may have cancelled this one.
    const isTooMany = watched.size >= MOST_WATCHED;
    if (isTooMany || watched.has(uri) || request.isOver) stop();
    else watched.set(uri, stop);
    if (!isTooMany) return {};
    const advice = "Unsubscribe from one that is no longer needed.";
    throw invalidParams(
      `This session watches ${MOST_WATCHED} resources, which is as many as it may. ${advice}`,
    );
  },
  async "resources/unsubscribe"(_: McpServing, request: ClientRequest): Promise<object> {
    const uri = await uriOf(request);
    const { session } = request.peer;
    session?.watched.get(uri)?.();
    session?.watched.delete(uri);
    return {};
  },
};
