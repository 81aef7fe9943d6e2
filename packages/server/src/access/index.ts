export { decrypt, EncryptionKey, encrypt, osKeyring, SecretError } from "./encryption.ts";
export {
  findGrant,
  type Grant,
  GrantWatch,
  grantOf,
  grantOfCaller,
  isExpired,
  masterGrant,
} from "./grants.ts";
export { guardWrite } from "./guarded-write.ts";
export {
  type AddressRules,
  createAddressRules,
  downloadName,
  requestHeaders,
  shownHeaders,
  withTimeLimit,
} from "./network/address.ts";
export { KeptConnections, type OpenedResponse, openUrl, parseUrl } from "./network/outgoing-request.ts";
export {
  acceptedEncodings,
  alreadyThere,
  type BodyPart,
  bodyText,
  decodedBody,
  isJson,
  parseContentType,
  parseJson,
  prettyJson,
  readBody,
  readResponse,
  saveStream,
  tooLarge,
} from "./network/response-body.ts";
export {
  isLinkToPrivate,
  ownFolders,
  type PowerPlaces,
  powerCheck,
  privatePaths,
  realRoots,
} from "./power-files.ts";
export { isInside, realPathOf } from "./real-path.ts";
export {
  MaskedValues,
  openSecrets,
  type Secrets,
  toolSecretName,
  writtenForms,
} from "./secrets.ts";
export {
  declaresSecret,
  openValues,
  resolveEnvironment,
  type Setting,
  SettingError,
  setCommand,
  type ToolValues,
  unsetEnvironment,
} from "./settings.ts";
export {
  type Authentication,
  Authenticator,
  ensureMasterToken,
  hashToken,
  issueToken,
  requireSharedToken,
  type TokenRequest,
} from "./tokens.ts";
export { ToolSwitches } from "./tool-switches.ts";
export { serversIn, Unapproved } from "./unapproved-files.ts";
