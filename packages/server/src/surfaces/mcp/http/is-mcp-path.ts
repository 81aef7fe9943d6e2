/** Whether the rack is served at this path: as a whole, or as one of its experts. */
export function isMcpPath(path: string): boolean {
  return path === "/mcp" || path === "/mcp/" || /^\/mcp\/[^/]+$/.test(path);
}
