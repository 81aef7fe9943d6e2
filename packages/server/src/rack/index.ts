export { type App, type OpenOptions, openWorkspace } from "./app.ts";
export { type OpenedChat, openChatService } from "./chat-service.ts";
export { ownEntries } from "./mcp-servers.ts";
export { type ProtectedProcess, protectProcess } from "./protect-process.ts";
export { type ServeOptions, type Serving, serve, serveStdio } from "./serve.ts";
