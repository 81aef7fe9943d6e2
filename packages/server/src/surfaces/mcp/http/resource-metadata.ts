import type { IncomingMessage } from "node:http";
import { HttpError } from "../../http/http-error.ts";
import type { Mount } from "../../http/mount.ts";
import { originOf } from "../../http/own-origin.ts";
import { isMcpPath } from "./is-mcp-path.ts";

const WELL_KNOWN = "/.well-known/oauth-protected-resource";

/** Tells clients how `/mcp` is protected: by bearer tokens in the header, which the operator hands out. */
export function resourceMetadataMount(): Mount {
  return {
    access: "open",
    // What is not there is said here too: elsewhere who has no token is asked for one.
    owns: (path) => path === WELL_KNOWN || path.startsWith(`${WELL_KNOWN}/`),
    handle(incoming, outgoing) {
      const { pathname } = new URL(incoming.url ?? "/", "http://localhost");
      const resource = pathname.slice(WELL_KNOWN.length) || "/mcp";
      if (!isMcpPath(resource)) throw new HttpError("not_found", `Nothing is served at ${resource}.`);
      const body = JSON.stringify({
        resource: `${originOf(incoming)}${resource}`,
        resource_name: "Toolrack",
        bearer_methods_supported: ["header"],
      });
      outgoing.writeHead(200, { "Content-Type": "application/json", "Cache-Control": "max-age=3600" });
      outgoing.end(body);
    },
  };
}

/** Where the metadata of what was asked for is, as a challenge names it. */
export function metadataChallenge(incoming: IncomingMessage): string {
  const { pathname } = new URL(incoming.url ?? "/mcp", "http://localhost");
  return `resource_metadata="${originOf(incoming)}${WELL_KNOWN}${pathname}"`;
}
