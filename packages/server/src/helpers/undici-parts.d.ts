/** Parts of undici that are loaded without the others. Its types are those of the whole. */
declare module "undici/lib/core/connect.js" {
  export { buildConnector as default } from "undici";
}
declare module "undici/lib/dispatcher/agent.js" {
  export { Agent as default } from "undici";
}
