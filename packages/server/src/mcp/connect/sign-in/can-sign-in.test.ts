import { expect, it } from "vitest";
import type { ServerEntry } from "../config/entry.ts";
import { canSignIn } from "./stored-sign-in.ts";

const url = "https://mcp.example/mcp";

// biome-ignore-start lint/suspicious/noTemplateCurlyInString: these are the variables of the file, not of the language.
it.each<[string, ServerEntry, boolean]>([
  ["nothing but an address", { url }, true],
  ["headers that say who asks", { url, headers: { "X-Tenant": "${TENANT}", Accept: "text/plain" } }, true],
  ["a parameter that is no secret", { url: `${url}?project=toolrack` }, true],
  ["a process", { command: "serve" }, false],
  ["an Authorization header", { url, headers: { authorization: "Bearer ${TOKEN}" } }, false],
  ["the same, and oauth", { url, headers: { Authorization: "x" }, toolrack: { oauth: {} } }, false],
  ["a user in the address", { url: "https://me:you@mcp.example/mcp" }, false],
  ["a header that is named like a secret", { url, headers: { "x-api-key": "${KEY}" } }, false],
  ["a header with a secret", { url, headers: { "X-Gate": "${secret:GATE}" } }, false],
  ["a secret in the path", { url: "https://mcp.example/${secret:PATH}/mcp" }, false],
  ["a key in the query", { url: "${BASE}/mcp?api_key=${KEY}#top" }, false],
  ["a key, and oauth", { url, headers: { "X-Api-Key": "${KEY}" }, toolrack: { oauth: {} } }, true],
])("an entry with %s", (_, entry, can) => {
  expect(canSignIn(entry)).toBe(can);
});
// biome-ignore-end lint/suspicious/noTemplateCurlyInString: these are the variables of the file, not of the language.
