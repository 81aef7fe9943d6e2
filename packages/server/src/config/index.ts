export {
  addressProblem,
  type Config,
  defaultLimits,
  defineConfig,
  type Models,
  type ModelTraits,
  parseGrants,
  retentionOf,
  type SandboxConfig,
  type SandboxGrant,
  type Services,
  shownAddress,
  timerMs,
  type WorkerLimits,
  withDefaultLimits,
} from "./config.ts";
export { type ConfigOrigin, loadEnvironment, readConfig, unreadConfigs } from "./read-config.ts";
export { isAlive, readServerAddress, type ServerAddress, writeServerAddress } from "./server-address.ts";
export {
  matchesPattern,
  problemOfKey,
  problemOfToolPattern,
  type RackItem,
  toolMatcher,
  upstreamOrigin,
} from "./tool-patterns.ts";
export type { Workspace } from "./workspace.ts";
