/** The parameters with which a client of the legacy era begins a session. */
export const initializeParams = {
  protocolVersion: "2025-11-25",
  capabilities: {},
  clientInfo: { name: "t", version: "1" },
};
