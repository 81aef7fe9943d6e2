import type { InferInput } from "@toolrack/core";
import { nearestNames } from "@toolrack/core/internal";
import { asRecord, isRecord } from "../../../helpers/index.ts";

const filled = { type: "string", minLength: 1 } as const;

/** An HTTP API in place of a server: its description, and how it is reached. */
export const api = {
  type: "object",
  additionalProperties: false,
  required: ["spec"],
  properties: {
    spec: filled, // The OpenAPI description: a file of the workspace, or an address.
    baseUrl: filled, // The address of the API. Default: what the description says.
    // Credentials by the names of the description's security schemes: a key, a token, `user:password`, or a client of OAuth.
    auth: {
      type: "object",
      additionalProperties: {
        anyOf: [
          filled,
          {
            type: "object",
            additionalProperties: false,
            required: ["clientId"],
            properties: {
              // Default: `client_credentials` with a clientSecret, otherwise `authorization_code`: a person signs in.
              grant: { enum: ["authorization_code", "client_credentials"] },
              clientId: filled,
              clientSecret: filled,
              authorizationUrl: filled, // Where a person signs in. Default: what the description says.
              tokenUrl: filled, // Where tokens are given. Default: what the description says.
              scope: filled, // Default for a person: all that the operations need.
              signIn: { enum: ["shared", "token"] }, // As in `toolrack.oauth`.
            },
          },
        ],
      },
    },
    documents: filled, // The folder with the documents of a GraphQL API, of which `spec` is the schema.
    readOnly: { type: "boolean" }, // Only operations that read (GET and HEAD) are offered.
    approve: { type: "array", items: { type: "string" } }, // Operations that wait for a person's consent. Default: all that do more than read.
  },
} as const;

type ApiEntry = InferInput<typeof api>;

/** Keys of an entry of `apis.json` that belong to `api`, and those that are choices about its tools. */
const apiKeys = Object.keys(api.properties);
const choiceKeys = ["include", "exclude", "rename"];

/** An entry of `apis.json` in the form of all entries. Any other entry is returned as it is. */
export function fromApiForm(given: unknown): unknown {
  if (!isRecord(given) || given.spec === undefined) return given;
  const pick = (keys: readonly string[]) =>
    Object.fromEntries(Object.entries(given).filter(([key]) => keys.includes(key)));
  const rest = Object.entries(given).filter(([key]) => !apiKeys.includes(key) && !choiceKeys.includes(key));
  const { toolrack = {}, ...others } = Object.fromEntries(rest);
  // Unlike mcp.json, no other program writes this form, so an unknown key is a mistake.
  const known = [...apiKeys, ...choiceKeys, "headers", "timeout", "enabled", "disabled", "toolrack"];
  for (const key of Object.keys(given)) {
    const [meant] = nearestNames(key, known, 1);
    const hint = meant === undefined ? `Its keys: ${known.join(", ")}.` : `Did you mean "${meant}"?`;
    refuseIf(!known.includes(key), `${key}: An API has no such key. ${hint}`);
  }
  if (!isRecord(toolrack)) return { ...others, api: pick(apiKeys), toolrack };
  const tools = { ...asRecord(toolrack.tools), ...pick(choiceKeys) };
  return { ...others, api: pick(apiKeys), toolrack: { ...toolrack, tools } };
}

/** A client of OAuth in the entry of an API. */
type ClientEntry = Exclude<NonNullable<ApiEntry["auth"]>[string], string>;

/** Whether a person signs in with this client. Otherwise the rack does, as a machine. */
function isForPerson({ grant, clientSecret }: ClientEntry): boolean {
  return grant === undefined ? clientSecret === undefined : grant === "authorization_code";
}

/** The credential of an API for which a person signs in, by the name of its scheme. */
export function personAuthOf({
  api,
}: {
  readonly api?: ApiEntry | undefined;
}): { readonly scheme: string; readonly client: ClientEntry } | undefined {
  for (const [scheme, client] of Object.entries(api?.auth ?? {}))
    if (typeof client !== "string" && isForPerson(client)) return { scheme, client };
  return undefined;
}

/** Throws an `Error` that names what is wrong with the address or the credentials of an API. */
export function checkApi({ baseUrl, auth = {} }: ApiEntry): void {
  refuseIf(!beginsWith(/^\s*https?:\/\//i, baseUrl), "baseUrl: It must begin with http:// or https://.");
  const isWhole = baseUrl?.includes("${") === true || URL.canParse(baseUrl ?? "http://a");
  refuseIf(!isWhole, "baseUrl: It is no whole address, such as https://api.example.com/v1.");
  const clients = Object.entries(auth).flatMap(([name, one]) =>
    typeof one === "string" ? [] : [{ name, ...one }],
  );
  refuseIf(clients.filter(isForPerson).length > 1, "auth: A person signs in at an API with one client.");
  for (const { name, ...client } of clients) {
    const { clientSecret, authorizationUrl, tokenUrl, signIn } = client;
    for (const [key, address] of Object.entries({ authorizationUrl, tokenUrl }))
      refuseIf(
        !beginsWith(/^https?:\/\//i, address),
        `auth.${name}.${key}: It must begin with http:// or https://.`,
      );
    if (isForPerson(client)) {
      refuseIf(
        clientSecret !== undefined && tokenUrl === undefined,
        `auth.${name} has a clientSecret with which a person signs in, but no tokenUrl. Write the address that gives the tokens: otherwise the description could have the secret sent anywhere.`,
      );
      continue;
    }
    refuseIf(clientSecret === undefined, `auth.${name}: the grant client_credentials needs a clientSecret.`);
    refuseIf(
      authorizationUrl !== undefined || signIn !== undefined,
      `auth.${name}: authorizationUrl and signIn are for people who sign in. Take them out, or write "grant": "authorization_code".`,
    );
  }
}

export function refuseIf(isWrong: boolean, problem: string): void {
  if (isWrong) throw new Error(problem);
}

/**
 * Whether the text begins with the protocol. Also true without a text, and for a text that begins with a
 * variable, which is checked when it is used.
 */
export function beginsWith(protocol: RegExp, text = "${"): boolean {
  return text.trimStart().startsWith("${") || protocol.test(text);
}
