export type { ExpertView } from "./caller.ts";
export type { StdioStreams } from "./stdio.ts";
export { createMcpSurface, type McpSurface } from "./surface.ts";
