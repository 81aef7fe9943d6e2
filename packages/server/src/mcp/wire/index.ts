export type { ConnectedClient, Era } from "./client.ts";
