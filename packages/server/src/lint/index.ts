export type { Finding } from "./finding.ts";
export { Linter, type LintSwitches, readSwitches } from "./lint.ts";
