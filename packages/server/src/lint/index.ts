export { Linter, type LintSwitches, readSwitches } from "./lint.ts";
export type { Finding } from "./tool-facts.ts";
