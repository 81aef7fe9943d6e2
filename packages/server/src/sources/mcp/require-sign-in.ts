import { McpServerError } from "../../store/mcp-servers/mcp-server-error.ts";
import { isLocal, type ServerEntry } from "./config/server-entry.ts";
import type { ManagedServer } from "./managed-server.ts";
import { canSignIn } from "./sign-in/can-sign-in.ts";
import type { SignIn } from "./sign-in/sign-in.ts";

/** Throws `McpServerError` for a server at which nobody can sign in. */
export function requireSignIn({ key, signIn, wanted }: ManagedServer): SignIn {
  if (signIn !== undefined) return signIn;
  if (wanted.invalid !== undefined) throw new McpServerError("mcp_server_invalid", wanted.invalid.reason);
  throw new McpServerError(
    "mcp_server_invalid",
    `Nobody can sign in at the MCP server "${key}": ${reasonFor(wanted.entry)}.`,
  );
}

function reasonFor(entry: ServerEntry): string {
  if (isLocal(entry)) return "it is a process, which takes its credentials from its environment";
  const canHaveBoth = canSignIn({ ...entry, toolrack: { ...entry.toolrack, oauth: {} } });
  const other = canHaveBoth ? ', or give it "toolrack": { "oauth": {} } if the server wants both' : "";
  return `its entry sends credentials of its own, in a header or in its url. Take them out of the entry first${other}`;
}
