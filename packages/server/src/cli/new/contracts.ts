/** The shapes in which a tool can be written, and what `toolrack new` makes for each. */
export const contracts = {
  internal: "an object with a handler in tools/GROUP/ACTION.ts",
  toolbox: "a schema, a default function and destroy in tools/NAME.ts",
  define: "Tool.define in tools/NAME.ts",
  plugin: "opencode's tool() in tools/NAME.ts",
  "single-file": "getMetadata, getSchema and execute in tools/NAME.tool.js, run in the sandbox",
} as const;

export type ContractName = keyof typeof contracts;

export const contractNames = Object.keys(contracts) as ContractName[]; // The keys of a constant object are its type's keys.
