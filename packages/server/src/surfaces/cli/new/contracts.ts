/** The shapes in which a tool can be written, and what `toolrack new` makes for each. */
export const contracts = {
  internal: "an object with a handler in tools/GROUP/ACTION.ts",
  toolbox: "a schema, a default function and destroy in tools/NAME.ts",
  define: "Tool.define in tools/NAME.ts",
  plugin: "opencode's tool() in tools/NAME.ts",
  "single-file": "getMetadata, getSchema and execute in tools/NAME.tool.js (needs the sandbox)",
} as const;

export type ContractName = keyof typeof contracts;

/** Those that can run in this version: single-file tools wait for the sandbox. */
export const offeredContracts = (Object.keys(contracts) as ContractName[]) // The keys of a constant object are its type's keys.
  .filter((name) => name !== "single-file");
