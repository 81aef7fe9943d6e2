export { type App, type OpenOptions, openWorkspace, type Recording } from "./app.ts";
export type { OpenedChat } from "./open-chat.ts";
export type { ServeOptions, Serving } from "./serve.ts";
export type { Working, WorkOptions } from "./worker.ts";
export { testRunnerOf } from "./workspace-parts.ts";

// Most commands do not serve, and most programs import this package only to define tools, so this code is loaded on first use.
import type { openChatService as OpenChatService, providersOf as ProvidersOf } from "./open-chat.ts";
import type { addRunTool as AddRunTool } from "./open-code.ts";
import type { ownEntries as OwnEntries, startMcpServers as StartMcpServers } from "./rack.ts";
import type { serve as Serve, serveStdio as ServeStdio } from "./serve.ts";
import type { work as Work } from "./worker.ts";

export const serve: typeof Serve = async (...args) => (await import("./serve.ts")).serve(...args);

export const work: typeof Work = async (...args) => (await import("./worker.ts")).work(...args);

export const serveStdio: typeof ServeStdio = async (...args) =>
  (await import("./serve.ts")).serveStdio(...args);

export const ownEntries: typeof OwnEntries = async (...args) =>
  (await import("./rack.ts")).ownEntries(...args);

export const startMcpServers: typeof StartMcpServers = async (...args) =>
  (await import("./rack.ts")).startMcpServers(...args);

export const addRunTool = async (...args: Parameters<typeof AddRunTool>): Promise<void> =>
  (await import("./open-code.ts")).addRunTool(...args);

export const providersOf = async (
  ...args: Parameters<typeof ProvidersOf>
): Promise<ReturnType<typeof ProvidersOf>> => (await import("./open-chat.ts")).providersOf(...args);

export const openChatService: typeof OpenChatService = async (...args) =>
  (await import("./open-chat.ts")).openChatService(...args);
