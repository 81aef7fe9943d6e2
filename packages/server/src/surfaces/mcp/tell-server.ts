import type { Server } from "@modelcontextprotocol/server";
import type { ListKind } from "./audience.ts";

/** Tells the client of this server that a list has changed. Whether it hears it is of no account. */
export function tellServer(server: Server, kind: ListKind): void {
  void senders[kind](server).catch(() => {});
}

const senders: Readonly<Record<ListKind, (server: Server) => Promise<void>>> = {
  tools: (server) => server.sendToolListChanged(),
  prompts: (server) => server.sendPromptListChanged(),
  resources: (server) => server.sendResourceListChanged(),
};
