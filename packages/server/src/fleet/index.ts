export { type Channel, type Listener, NodeSilent } from "./channel.ts";
export type { LaneWorker, LaneWorkerOptions } from "./lane-worker.ts";
export type { LaneQueue, LanesConfig, LaneView } from "./lane-workers.ts";
export type { Lanes, LanesOptions } from "./lanes.ts";
export { Nodes, type NodeView } from "./nodes.ts";

import type { Store } from "../store/index.ts";
import { type Channel, NodeSilent } from "./channel.ts";

/** Opens the channel of a store. Without PostgreSQL it is silent, and loads nothing. */
export async function openChannel({ instance }: Pick<Store, "instance">): Promise<Channel> {
  if (instance.connection === undefined) return silentChannel(instance.id);
  const { PostgresChannel } = await import("./postgres-channel.ts");
  return PostgresChannel.open(instance, instance.connection);
}

/** Loads what hands calls over to workers, and what performs them there. Most racks have no Redis and do not need it. */
export async function loadLanes() {
  const [{ LaneLink }, { LaneWorker }, { Lanes }] = await Promise.all([
    import("./lane-link.ts"),
    import("./lane-worker.ts"),
    import("./lanes.ts"),
  ]);
  return { LaneLink, LaneWorker, Lanes };
}

function silentChannel(node: string): Channel {
  return {
    node,
    isShared: false,
    send: (other) => Promise.reject(new NodeSilent(other, "send")),
    request: (other, topic) => Promise.reject(new NodeSilent(other, topic)),
    publish() {},
    listen: () => () => {},
    onGap: () => () => {},
    close: async () => {},
  };
}
