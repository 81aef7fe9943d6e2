export type { ExpertView } from "./lists.ts";
export type { StdioStreams } from "./stdio/transport.ts";
export { createMcpSurface, type McpSurface } from "./surface.ts";
