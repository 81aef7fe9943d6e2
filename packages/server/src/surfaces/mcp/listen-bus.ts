import { AsyncLocalStorage } from "node:async_hooks";
import type { ServerEvent, ServerEventBus } from "@modelcontextprotocol/server";
import type { Audience, ListKind } from "./audience.ts";
import type { Viewer } from "./viewer.ts";

type Listener = (event: ServerEvent) => void;

/**
 * Where the streams of `subscriptions/listen` hear of changes. The SDK does not say whose stream it is that begins to
 * listen; what is done for a viewer's request is known to be so here.
 */
export class ListenBus implements ServerEventBus {
  readonly #join: (audience: Audience) => () => void;
  readonly #viewers = new AsyncLocalStorage<Viewer>();
  readonly #listeners = new Set<Listener>();

  constructor(join: (audience: Audience) => () => void) {
    this.#join = join;
  }

  /** Whoever begins to listen in the course of this work is the viewer. */
  listenAs<Result>(viewer: Viewer, work: () => Result): Result {
    return this.#viewers.run(viewer, work);
  }

  /** Everybody hears of it. */
  publish(event: ServerEvent): void {
    for (const listener of this.#listeners) heard(listener, event);
  }

  subscribe(listener: Listener): () => void {
    const viewer = this.#viewers.getStore();
    this.#listeners.add(listener);
    const leave = viewer && this.#join({ viewer, tell: (kind) => heard(listener, { kind: events[kind] }) });
    return () => {
      this.#listeners.delete(listener);
      leave?.();
    };
  }
}

const events = {
  tools: "tools_list_changed",
  prompts: "prompts_list_changed",
  resources: "resources_list_changed",
} as const satisfies Record<ListKind, ServerEvent["kind"]>;

/** A stream that fails keeps no other from hearing. */
function heard(listener: Listener, event: ServerEvent): void {
  try {
    listener(event);
  } catch {}
}
