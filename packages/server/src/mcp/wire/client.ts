/** Which of the two ways of MCP a client speaks: with a handshake and sessions, or without. */
export type Era = "legacy" | "modern";

/** A program that has spoken to the rack over MCP. */
export interface ConnectedClient {
  readonly name: string;
  readonly version?: string;
  readonly transport: "http";
  readonly era: Era;
  /** As records name it: which token it bears. */
  readonly caller: string;
  /** The expert that it was given instead of the whole rack. */
  readonly expert?: string;
  /** Milliseconds since the epoch. */
  readonly lastSeenAt: number;
  /** It listed the tools before they changed last, and has not since. */
  readonly stale?: true;
}
