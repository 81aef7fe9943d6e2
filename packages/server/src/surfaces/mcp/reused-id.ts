import { ProtocolErrorCode } from "@modelcontextprotocol/server";

/** What a client is told that uses an id again before it has the answer to the request that had it first. */
export function reusedId(id: string | number): { readonly code: number; readonly message: string } {
  const shown = JSON.stringify(id).slice(0, LONGEST);
  return {
    code: ProtocolErrorCode.InvalidRequest,
    message: `A request with the id ${shown} is still under way, so that this one was not begun. Send it again with an id that no other request has.`,
  };
}

/** Ids are as long as whoever chose them liked. */
const LONGEST = 100;
