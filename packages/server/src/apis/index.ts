export { Api, type ApiSettings, type ApiTool, tagsOf } from "./api.ts";
export type { Credential, Credentials } from "./credentials.ts";
export { SpecError, type SpecPlace } from "./document.ts";
export type { Skipped } from "./operations.ts";
