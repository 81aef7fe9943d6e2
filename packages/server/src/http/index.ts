export { findConsole, serveConsole } from "./console.ts";
export { askApprovals } from "./routes/approvals.ts";
export { startServer } from "./server.ts";
export type { HttpSettings } from "./services.ts";
