import { McpServerError } from "../../store/mcp-servers/mcp-server-error.ts";
import type { ManagedServer } from "./managed-server.ts";
import type { SignIn } from "./sign-in/sign-in.ts";

/** Throws `McpServerError` for a server at which nobody can sign in. */
export function requireSignIn({ key, signIn, wanted }: ManagedServer): SignIn {
  if (signIn !== undefined) return signIn;
  if (wanted.invalid !== undefined) throw new McpServerError("mcp_server_invalid", wanted.invalid.reason);
  const why =
    wanted.entry.url === undefined
      ? "it is a process, which takes its credentials from its environment"
      : "its entry sends credentials of its own, in a header or in its url. Take them out of the entry first";
  throw new McpServerError("mcp_server_invalid", `Nobody can sign in at the MCP server "${key}": ${why}.`);
}
