export { Api, type ApiSettings, type ApiTool } from "./api.ts";
export type { Credential, Credentials } from "./credentials.ts";
export { SpecError, type SpecPlace } from "./document.ts";
export { GraphqlApi } from "./graphql.ts";
export type { Skipped } from "./operations.ts";
