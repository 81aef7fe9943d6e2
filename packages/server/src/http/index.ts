export { serveConsole } from "./console.ts";
export { findConsole } from "./console-files.ts";
export { type HttpSettings, startServer } from "./server.ts";
