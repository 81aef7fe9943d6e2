import { problemOfOwnEntry, problemOfStart } from "../../calls/index.ts";
import { readServerAddress } from "../../helpers/server-address.ts";
import type { WantedServer } from "./config/configured-servers.ts";
import { type ApiTokens, type ResolvedEntry, resolveEntry } from "./config/resolve-entry.ts";
import { credentialsIn } from "./config/secret-values.ts";
import { ConfigurationError, notSignedIn, refuseCircle } from "./failures.ts";
import type { ServerContext } from "./server-context.ts";
import type { SignIn } from "./sign-in/sign-in.ts";

/** The server that a connection leads to. */
export interface ConnectedServer {
  readonly key: string;
  readonly wanted: WantedServer;
  readonly context: ServerContext;
  /** Where the entry is, for error messages: `mcp.json` or `mcp_servers`. */
  readonly place: string;
}

/** The caller to whom a connection belongs, if the server keeps its callers apart. */
export interface ConnectionCaller {
  /** Unlike that of any other open connection to the server. */
  readonly id: string;
  /** The value of `${callerId}`: of letters, digits, `_` and `-`. */
  readonly callerId: string;
  /** The values that the entry takes from the caller, by name. */
  readonly values: ReadonlyMap<string, string>;
  /** Advice for a caller whose values the server refuses. Undefined when there are no values. */
  readonly remedy: string | undefined;
}

/**
 * The entry of a server with the current values of its variables, which are masked from here on: the server may send
 * them back with its first message. Throws when the entry is invalid or leads back to this rack.
 */
export async function connectionEntry(
  { key, wanted, context, place }: ConnectedServer,
  caller: ConnectionCaller | undefined,
): Promise<ResolvedEntry> {
  if (wanted.invalid !== undefined) throw new ConfigurationError(wanted.invalid.reason);
  refuseCircle(problemOfStart(context.identity));
  const own = caller && { callerId: caller.callerId, caller: (name: string) => caller.values.get(name) };
  const surroundings = { ...context.surroundings, ...own };
  const entry = await resolveEntry(wanted.entry, `${place}: ${key}`, surroundings);
  const { directory } = surroundings;
  const address = (await readServerAddress(directory))?.url;
  refuseCircle(problemOfOwnEntry(wanted.entry, directory, address));
  const found = credentialsIn(entry, wanted.entry);
  if (caller === undefined) {
    context.maskFor(key, found);
    return entry;
  }
  // The id of a token is no secret: records name it.
  const secret = found.filter((value) => value !== caller.callerId);
  context.maskFor(`${key} ${caller.id}`, [...secret, ...caller.values.values()]);
  return entry;
}

/** The entry of the server `key` with the headers, or for an API the tokens, of the person who has signed in there. */
export function withSignIn(
  entry: ResolvedEntry,
  key: string,
  signIn: SignIn | undefined,
  headers: Readonly<Record<string, string>> | undefined,
): ResolvedEntry {
  if (entry.kind === "address") return { ...entry, headers: { ...entry.headers, ...headers } };
  return entry.kind === "api" ? { ...entry, tokens: tokensOf(key, signIn) } : entry;
}

/** The tokens that calls of an API send, of the person who has signed in there. */
function tokensOf(key: string, signIn: SignIn | undefined): ApiTokens {
  return {
    async token() {
      const { Authorization: sent } = (await signIn?.headers()) ?? {};
      if (sent === undefined) throw new Error(notSignedIn(key).reason);
      return sent.replace(/^Bearer /, "");
    },
    // Of several calls that were refused at the same time, the first marks the token, and all wait for the next one.
    refuse: (token) => signIn?.markRefused({ Authorization: `Bearer ${token}` }) || signIn?.canRenew === true,
  };
}
