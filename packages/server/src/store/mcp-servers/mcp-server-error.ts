/** Why something about an upstream server cannot be done. */
export type McpServerErrorCode =
  | "mcp_server_not_found"
  | "mcp_server_exists"
  | "mcp_server_read_only"
  | "mcp_server_invalid"
  | "mcp_tool_not_found"
  | "mcp_tool_changed"
  | "mcp_sign_in_failed";

export class McpServerError extends Error {
  override readonly name = "McpServerError";
  readonly code: McpServerErrorCode;
  readonly details: Readonly<Record<string, unknown>>;

  constructor(code: McpServerErrorCode, message: string, details: Readonly<Record<string, unknown>> = {}) {
    super(message);
    this.code = code;
    this.details = details;
  }
}
