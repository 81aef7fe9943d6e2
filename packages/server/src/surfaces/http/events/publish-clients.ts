import type { ConnectedClient } from "../../mcp/connected-clients.ts";
import type { EventFeed } from "./event-feed.ts";

/** Tells the feed of each MCP client that connects. */
export function publishClients(feed: EventFeed): (client: ConnectedClient) => void {
  return ({ name, version, era, caller, expert }) =>
    feed.publish("client.connected", { name, version, era, caller, expert }, "admins");
}
