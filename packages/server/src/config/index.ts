export {
  type Config,
  defaultLimits,
  defineConfig,
  type FolderGrant,
  type LintRule,
  lintRules,
  type Models,
  type ModelTraits,
  retentionOf,
  type SandboxConfig,
  type SandboxGrant,
  type Services,
  timerMs,
  type WorkerLimits,
  type Workspace,
  withDefaultLimits,
} from "./config.ts";
export { parseGrants } from "./network-grants.ts";
export {
  addressProblem,
  type ConfigOrigin,
  loadEnvironment,
  readConfig,
  shownAddress,
  unreadConfigs,
  usualFolders,
  usualFoldersIn,
} from "./read-config.ts";
export {
  matchesPattern,
  originOf,
  problemOfKey,
  problemOfToolPattern,
  type RackItem,
  toolMatcher,
  upstreamOrigin,
} from "./tool-patterns.ts";
