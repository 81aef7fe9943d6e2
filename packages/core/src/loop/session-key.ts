/** No name of a session has it. */
const OWNED_BY = "\u0000";

/** What a session is remembered by: two owners may use the same name for different sessions. */
export function sessionKey(sessionID: string, owner: string | undefined): string {
  return owner === undefined ? sessionID : sessionID + OWNED_BY + owner;
}

/** The session's name, whoever owns it. */
export function sessionOfKey(key: string): string {
  const end = key.indexOf(OWNED_BY);
  return end === -1 ? key : key.slice(0, end);
}
