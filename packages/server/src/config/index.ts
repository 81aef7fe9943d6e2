export {
  type Config,
  defineConfig,
  type Models,
  type ModelTraits,
  retentionOf,
  type Services,
  type Workspace,
} from "./config.ts";
export { addressProblem, shownAddress } from "./config-schema.ts";
export { type ConfigOrigin, loadEnvironment, readConfig, unreadConfigs } from "./read-config.ts";
export {
  defaultLimits,
  parseGrants,
  type SandboxConfig,
  type SandboxGrant,
  timerMs,
  type WorkerLimits,
  withDefaultLimits,
} from "./sandbox.ts";
export { isAlive, readServerAddress, type ServerAddress, writeServerAddress } from "./server-address.ts";
export {
  matchesPattern,
  problemOfKey,
  problemOfToolPattern,
  type RackItem,
  toolMatcher,
  upstreamOrigin,
} from "./tool-patterns.ts";
