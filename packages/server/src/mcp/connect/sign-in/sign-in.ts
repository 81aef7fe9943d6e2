import { randomBytes, timingSafeEqual } from "node:crypto";
import { setTimeout as wait } from "node:timers/promises";
import type { StoredOAuthClientInformation } from "@modelcontextprotocol/client";
import { asRecord, reasonOf } from "../../../helpers/index.ts";
import { McpServerError } from "../../../store/index.ts";
import type { Catalogue } from "../catalogue/catalogue.ts";
import { personAuthOf } from "../config/api-entry.ts";
import type { WantedServer } from "../config/configured-servers.ts";
import type { OAuthEntry, ServerEntry } from "../config/entry.ts";
import { expandAll, resolveEntry } from "../config/resolve-entry.ts";
import { ConfigurationError, commandFor, sentence, UpstreamError } from "../failures.ts";
import type { ServerContext } from "../server-context.ts";
import type { SignInView } from "../server-schemas.ts";
import type { BegunSignIn } from "./oauth-flow.ts";
import { joinScopes, type KeptSignIn, type SignInTarget, type SignInVault } from "./stored-sign-in.ts";

/** The server or API that is signed in at. */
export interface SignInOwner {
  readonly key: string;
  readonly wanted: WantedServer;
  readonly context: ServerContext;
  /** Where the entry is, for error messages. */
  readonly place: string;
  /** Its catalogue has what the description of an API says about the sign-in, once that has been read. */
  readonly upstream: { readonly catalogue: Pick<Catalogue, "signIn"> };
}

interface Pending {
  readonly state: string;
  readonly until: number;
  readonly begun: BegunSignIn;
  /** The person has come back. */
  readonly isAnswered?: boolean;
}

const CLIENT_NAME = "Toolrack";
/** How long a person may take to sign in, in milliseconds. */
const SIGN_IN_TIMEOUT = 10 * 60_000;
/** Tokens are renewed this long before they end, or when a fifth of their time is left if that is later. */
const MARGIN = 60_000;
const LONGEST_REASON = 500;
/** The pauses before each check whether another process has stored new tokens, in milliseconds. */
const PAUSES = [0, 100, 200, 300, 400];

/**
 * The rack's sign-in at one upstream server. Sends a person to the page, stores the tokens encrypted, renews them before
 * they end and when they are refused, and revokes them.
 */
export class SignIn {
  /** When to renew the tokens, in milliseconds since the epoch. */
  renewAt: number | undefined;
  readonly #server: SignInOwner;
  readonly #entry: ServerEntry;
  readonly #vault: SignInVault;
  readonly #isMachine: boolean;
  #kept: KeptSignIn | undefined;
  /** How often a sign-in was ended here. */
  #endings = 0;
  /** The access token that the server has refused. */
  #refused: string | undefined;
  /** Scopes that the server asked for and were not granted. The next sign-in requests them. */
  #wanted: string | undefined;
  /** The client that was registered for an unfinished sign-in. */
  #registered: StoredOAuthClientInformation | undefined;
  #pending: Pending | undefined;
  #problem: string | undefined;
  #renewing: Promise<KeptSignIn | undefined> | undefined;
  #finishing: Promise<void> | undefined;

  constructor(server: SignInOwner, entry: ServerEntry, vault: SignInVault) {
    this.#server = server;
    this.#entry = entry;
    this.#vault = vault;
    this.#isMachine = entry.toolrack?.oauth?.grant === "client_credentials";
  }

  get view(): SignInView {
    const { until = 0, isAnswered = false } = this.#pending ?? {};
    const pending = isAnswered || until > Date.now();
    return { signedIn: this.#kept !== undefined, pending, problem: this.#problem };
  }

  /** Whether there are tokens. Reads the store if this process has none. */
  async isSignedIn(): Promise<boolean> {
    if (this.#kept === undefined) await this.#load(await this.#target());
    return this.#kept !== undefined;
  }

  /** Whether a person was sent to sign in with this state, and has not come back. */
  awaits(state: string): boolean {
    return this.#pending !== undefined && isSame(this.#pending.state, state);
  }

  /** The headers for every request to the server; empty when nobody has signed in. Renews the tokens if needed. */
  async headers(): Promise<Readonly<Record<string, string>>> {
    if (this.#isElsewhere()) this.#take(undefined);
    let kept = this.#kept;
    if (kept === undefined || this.#isStale()) {
      const target = await this.#target();
      if (this.#kept === undefined) await this.#load(target);
      kept = this.#kept;
      if (this.#isStale()) {
        this.#renewing ??= this.#renew(target).finally(() => {
          this.#renewing = undefined;
        });
        kept = await this.#renewing;
      }
    }
    return kept === undefined ? {} : { Authorization: `Bearer ${kept.tokens.access_token}` };
  }

  /**
   * To be called when the server refused the token. Returns whether another token may be got without a person. `sent`: the
   * headers with the refused token; another connection may have renewed it meanwhile.
   */
  markRefused(sent: Readonly<Record<string, string>> | undefined): boolean {
    const { tokens } = this.#kept ?? {};
    if (tokens === undefined || this.#refused === tokens.access_token) return false;
    if (sent?.Authorization !== undefined && sent.Authorization !== `Bearer ${tokens.access_token}`)
      return true;
    this.#refused = tokens.access_token;
    return this.canRenew;
  }

  /** Whether other tokens may be got without a person. */
  get canRenew(): boolean {
    return this.#kept?.tokens.refresh_token !== undefined || this.#isMachine;
  }

  /** To be called when the server asks for a scope that was not granted. Returns advice for the person. */
  requireScope(scope: string): string {
    const { key } = this.#server;
    this.#wanted = joinScopes(this.#wanted, scope);
    if (!this.#isMachine) {
      return `Sign in again: ${commandFor("login", key)}, or on its page in the console. The sign-in then asks for it too.`;
    }
    // Forces a new token, which is requested with this scope.
    this.#refused = this.#kept?.tokens.access_token;
    return `Restart it, so that the rack asks for it too: ${commandFor("restart", key)}`;
  }

  /** Returns the page to send the person to, and until when it is valid. */
  async begin(redirectUrl: string): Promise<{ readonly url: string; readonly expiresAt: number }> {
    const { key } = this.#server;
    if (this.#isMachine) {
      throw new McpServerError(
        "mcp_server_invalid",
        `The MCP server "${key}" is signed in at as a machine (toolrack.oauth.grant is client_credentials), so nobody has to. Restart it: ${commandFor("restart", key)}`,
      );
    }
    const state = randomBytes(32).toString("base64url");
    const begun = await this.#attempt(async () => {
      const target = await this.#target();
      const { beginSignIn } = await import("./oauth-flow.ts");
      const kept = await this.#vault.read(target.url.href);
      return beginSignIn(target, {
        redirectUrl,
        state,
        kept: kept?.client ?? this.#registered,
        wanted: joinScopes(kept?.wanted, this.#wanted),
        granted: kept?.tokens.scope ?? kept?.asked,
      });
    });
    this.#registered = begun.client;
    const until = Date.now() + SIGN_IN_TIMEOUT;
    this.#pending = { state, until, begun };
    this.#problem = undefined;
    this.#server.context.onChange();
    return { url: begun.page.href, expiresAt: until };
  }

  /**
   * Finishes a sign-in with the parameters of the callback. Works once, and only for a sign-in that was begun
   * in this process.
   */
  async finish(answer: URLSearchParams): Promise<void> {
    const { key } = this.#server;
    const pending = this.#pending;
    const isOurs = pending !== undefined && isSame(pending.state, answer.get("state") ?? "");
    if (!isOurs || pending.isAnswered || pending.until < Date.now()) throw noPendingSignIn(key);
    const answered = { ...pending, isAnswered: true };
    this.#pending = answered;
    this.#finishing = this.#attempt(async () => {
      try {
        const code = answer.get("code");
        if (code === null) throw new Error(refusalIn(answer));
        this.#vault.learn(code);
        const { finishSignIn } = await import("./oauth-flow.ts");
        const kept = await finishSignIn(pending.begun, code, answer.get("iss") ?? undefined);
        await this.#vault.write(kept);
        this.#wanted = undefined;
        this.#registered = undefined;
        this.#take(kept);
      } finally {
        // Another sign-in may have begun meanwhile.
        if (this.#pending === answered) this.#pending = undefined;
      }
    });
    await this.#finishing;
    this.#server.context.onChange();
  }

  /** Removes the tokens, and revokes them if possible. Never rejects because of the authorization server. */
  async end(): Promise<{ readonly revoked: boolean }> {
    this.#pending = undefined;
    // Wait for running exchanges, which would otherwise store tokens afterwards.
    await Promise.allSettled([this.#renewing, this.#finishing]);
    // Without an address, such as when a variable has no value, the tokens can still be removed.
    const target = await this.#target().catch(() => undefined);
    const before = this.#kept;
    this.#problem = undefined;
    this.#wanted = undefined;
    this.#registered = undefined;
    this.#forget();
    // Another process may have renewed the tokens, so the stored ones count.
    const kept = (await this.#vault.take(target?.url.href)) ?? before;
    // Until now somebody may have read what was still stored.
    this.#forget();
    this.#server.context.onChange();
    if (kept === undefined || target === undefined) return { revoked: false };
    return { revoked: await this.#revoke(kept, target) };
  }

  /**
   * Applies a sign-out of another process on the same store, and a sign-in if the server waits for one. Resolves to whether
   * the server must be restarted. Never rejects: if the store cannot be read, nothing changes.
   */
  async follow(isAwaited: boolean): Promise<boolean> {
    if (this.#isMachine) return false;
    const before = this.#kept;
    let kept: KeptSignIn | undefined;
    try {
      kept = await this.#vault.read((await this.#target()).url.href);
    } catch {
      return false;
    }
    // A running renewal reads the store itself.
    if (this.#renewing !== undefined || this.#kept !== before) return false;
    if (isSameToken(kept, before) || (kept !== undefined && !isAwaited)) return false;
    this.#problem = undefined;
    this.#take(kept);
    this.#server.context.onChange();
    return true;
  }

  async #target(): Promise<SignInTarget> {
    const { key, place, context } = this.#server;
    const { surroundings } = context;
    const entry = this.#entry;
    const where = `${place}: ${key}`;
    if (entry.api !== undefined) return this.#targetOfApi(where);
    const resolved = await resolveEntry(entry, where, surroundings);
    if (resolved.kind !== "address") throw new ConfigurationError(`${where} has no url to sign in at.`);
    const given = entry.toolrack?.oauth ?? {};
    const settings: OAuthEntry = await expandAll(given, `${where}.toolrack.oauth`, surroundings);
    const { clientMetadataUrl } = settings;
    if (clientMetadataUrl !== undefined && !isMetadataUrl(clientMetadataUrl)) {
      throw new ConfigurationError(
        `${where}.toolrack.oauth.clientMetadataUrl must be the address of a document: it begins with https://, has a path, and has neither credentials nor a fragment.`,
      );
    }
    return { url: resolved.url, headers: resolved.headers, settings, clientName: CLIENT_NAME };
  }

  async #targetOfApi(where: string): Promise<SignInTarget> {
    const { upstream, context } = this.#server;
    const { surroundings } = context;
    const { scheme = "", client } = personAuthOf(this.#entry) ?? {};
    const found = upstream.catalogue.signIn;
    if (client === undefined || found === undefined)
      throw new ConfigurationError(`${where}: Where to sign in is known once its description has been read.`);
    const own: Partial<typeof client> = await expandAll(client, `${where}.auth.${scheme}`, surroundings);
    const { authorizationUrl = found.authorizationUrl, tokenUrl = found.tokenUrl, scope = found.scope } = own;
    if (authorizationUrl === undefined || tokenUrl === undefined)
      throw new ConfigurationError(
        `${where}: The description does not say where a person signs in for "${scheme}". Write authorizationUrl and tokenUrl into its auth.`,
      );
    const { clientId, clientSecret } = own;
    const settings = { clientId, clientSecret, scope, issuer: own.tokenUrl };
    const endpoints = { authorizationUrl, tokenUrl };
    return { url: new URL(found.server), headers: {}, settings, clientName: CLIENT_NAME, endpoints };
  }

  /** Whether the description of the API leads to another origin than when the person signed in. */
  #isElsewhere(): boolean {
    const { server } = this.#server.upstream.catalogue.signIn ?? {};
    return this.#kept !== undefined && server !== undefined && new URL(server).href !== this.#kept.server;
  }

  #isStale(): boolean {
    const kept = this.#kept;
    if (kept === undefined) return this.#isMachine;
    if (this.#refused === kept.tokens.access_token) return true;
    return this.renewAt !== undefined && this.renewAt <= Date.now();
  }

  async #renew(target: SignInTarget): Promise<KeptSignIn | undefined> {
    // Another process on the same store may have renewed the tokens; then its tokens are used.
    const other = this.#isMachine ? undefined : await this.#read(target);
    if (other !== undefined && !isSameToken(other, this.#kept)) {
      this.#take(other);
      if (!this.#isStale()) return other;
    }
    try {
      return await this.#fetchTokens(target);
    } catch (thrown) {
      const kept = this.#kept;
      const { access_token } = kept?.tokens ?? {};
      const isOver = (kept?.expiresAt ?? Number.POSITIVE_INFINITY) <= Date.now();
      // The tokens are still valid, and the next renewal may succeed.
      if (kept !== undefined && this.#refused !== access_token && !isOver) return kept;
      const kind = this.#isMachine && !(thrown instanceof TypeError) ? "unauthorized" : "unavailable";
      throw new UpstreamError(kind, `Its tokens could not be renewed: ${this.#describe(thrown)}`);
    }
  }

  async #fetchTokens(target: SignInTarget): Promise<KeptSignIn | undefined> {
    const { renewSignIn, signInAsMachine } = await import("./oauth-flow.ts");
    if (this.#isMachine) {
      const fresh = await signInAsMachine(target, this.#wanted);
      this.#vault.learn(fresh.tokens.access_token);
      this.#take(fresh);
      return fresh;
    }
    const kept = this.#kept;
    if (kept === undefined) return undefined;
    const renewed = await renewSignIn(kept, target);
    const fresh =
      renewed === undefined ? await this.#readOther(kept, target) : await this.#keep(renewed, kept, target);
    // No problem is shown if another process signed out: then nothing is left to clear.
    if (renewed === undefined && fresh === undefined && (await this.#vault.clear(kept)))
      this.#problem = "The authorization server gives no new tokens for the last sign-in. Sign in again.";
    this.#take(fresh);
    this.#server.context.onChange();
    return fresh;
  }

  /**
   * Stores the renewed sign-in if the store still has the sign-in `before`. Returns the sign-in that is in the
   * store after that. If another process has signed out meanwhile, the new tokens are revoked.
   */
  async #keep(
    renewed: KeptSignIn,
    before: KeptSignIn,
    target: SignInTarget,
  ): Promise<KeptSignIn | undefined> {
    if (await this.#vault.replace(renewed, before)) return renewed;
    const other = await this.#vault.read(target.url.href);
    // If another process renewed the same sign-in, revoking our tokens would end its tokens too.
    if (other === undefined) await this.#revoke(renewed, target);
    return other;
  }

  /** Resolves to whether the tokens were revoked; never rejects. */
  async #revoke(kept: KeptSignIn, target: SignInTarget): Promise<boolean> {
    const { revokeSignIn } = await import("./oauth-flow.ts");
    return revokeSignIn(kept, target).catch(() => false);
  }

  async #read({ url }: SignInTarget): Promise<KeptSignIn | undefined> {
    try {
      return await this.#vault.read(url.href);
    } catch (thrown) {
      this.#problem = this.#describe(thrown);
      return undefined;
    }
  }

  /**
   * A refresh token may work only once, and another process on the same store may have used it first. Waits for the tokens
   * of that process to appear in the store.
   */
  async #readOther(kept: KeptSignIn, target: SignInTarget): Promise<KeptSignIn | undefined> {
    for (const pause of PAUSES) {
      await wait(pause);
      const other = await this.#read(target);
      if (!isSameToken(other, kept)) return other;
    }
    return undefined;
  }

  /** Takes the stored sign-in, unless it has ended while it was read, or another has taken its place. */
  async #load(target: SignInTarget): Promise<void> {
    const endings = this.#endings;
    const kept = await this.#read(target);
    if (endings === this.#endings && this.#kept === undefined) this.#take(kept);
  }

  #forget(): void {
    this.#endings++;
    this.#take(undefined);
  }

  #take(kept: KeptSignIn | undefined): void {
    this.#kept = kept;
    this.#refused = undefined;
    const { expiresAt, tokens: { expires_in: seconds = 0 } = {} } = kept ?? {};
    this.renewAt =
      expiresAt === undefined || !this.canRenew
        ? undefined
        : expiresAt - Math.min(MARGIN, (seconds * 1000) / 5);
  }

  /** Runs a step of the sign-in. Turns its failure into an `McpServerError` with secrets masked. */
  async #attempt<Result>(work: () => Promise<Result>): Promise<Result> {
    try {
      return await work();
    } catch (thrown) {
      const problem = this.#describe(thrown);
      this.#problem = problem;
      this.#server.context.onChange();
      const text = `The sign-in at the MCP server "${this.#server.key}" came to nothing. ${problem}`;
      throw thrown instanceof ConfigurationError
        ? new McpServerError("mcp_server_invalid", problem)
        : new McpServerError("mcp_sign_in_failed", text);
    }
  }

  #describe(thrown: unknown): string {
    return this.#server.context.mask(signInProblem(thrown)).slice(0, LONGEST_REASON);
  }
}

/** The same message for every key, so that a stranger does not learn which servers exist. */
export function noPendingSignIn(key: string): McpServerError {
  return new McpServerError(
    "mcp_sign_in_failed",
    `No sign-in at an MCP server "${key}" waits for this answer: it was used already, took longer than ten minutes, or was not begun here. Begin again: ${commandFor("login", key)}`,
  );
}

function refusalIn(answer: URLSearchParams): string {
  const error = answer.get("error") ?? "no code came back";
  const description = answer.get("error_description");
  return `The authorization server said no: ${error}${description === null ? "" : ` (${description})`}.`;
}

function isSame(one: string, other: string): boolean {
  const [left, right] = [Buffer.from(one), Buffer.from(other)];
  return left.length === right.length && timingSafeEqual(left, right);
}

function isSameToken(one: KeptSignIn | undefined, other: KeptSignIn | undefined): boolean {
  return one?.tokens.access_token === other?.tokens.access_token;
}

/**
 * Whether this may be the address of a metadata document. It is sent as written, because authorization servers
 * compare it letter by letter.
 */
function isMetadataUrl(text: string): boolean {
  const { protocol, pathname, username, password } = URL.parse(text) ?? {};
  return protocol === "https:" && pathname !== "/" && !username && !password && !text.includes("#");
}

/** Describes a failure of a sign-in. The text is not masked yet. */
function signInProblem(thrown: unknown): string {
  const { message, cause, issues } = asRecord(thrown instanceof Error ? thrown : undefined);
  if (Array.isArray(issues) && issues.length > 0) {
    // Zod's own message lists all issues; the first one is enough.
    const { path, message: problem } = asRecord(issues[0]);
    const at = Array.isArray(path) ? path.join(".") : "";
    return `What the authorization server says about itself cannot be used: ${sentence(`${at}: ${problem}`)}`;
  }
  if (thrown instanceof SyntaxError) {
    const isCut = /end of JSON input/.test(thrown.message);
    const what = isCut ? "an answer that is empty or cut off" : "something that is no JSON";
    return `The authorization server sent ${what} where it should have described itself, a client or tokens. Tell whoever runs it, or register the rack there by hand and name the client in the entry: toolrack.oauth.clientId.`;
  }
  return reasonOf(message === "fetch failed" && cause instanceof Error ? cause : thrown);
}
