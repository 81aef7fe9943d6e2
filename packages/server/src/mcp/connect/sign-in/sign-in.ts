import { randomBytes, timingSafeEqual } from "node:crypto";
import { setTimeout as wait } from "node:timers/promises";
import type { StoredOAuthClientInformation } from "@modelcontextprotocol/client";
import { isRecord, reasonOf } from "../../../helpers/index.ts";
import { McpServerError } from "../../../store/index.ts";
import type { ServerEntry } from "../config/entry.ts";
import { resolveEntry, type Surroundings } from "../config/resolve-entry.ts";
import { ConfigurationError, commandFor, sentence, UpstreamError } from "../failures.ts";
import type { BegunSignIn } from "./oauth-flow.ts";
import { joinScopes, type KeptSignIn, resolveOAuth, type SignInTarget, type SignInVault } from "./vault.ts";

interface SignInOptions {
  readonly key: string;
  readonly entry: ServerEntry;
  /** Where the entry stands, for messages. */
  readonly place: string;
  readonly surroundings: Surroundings;
  readonly vault: SignInVault;
  readonly mask: (text: string) => string;
  /** Is called whenever `view` is another. */
  readonly onChange: () => void;
}

/** What may be seen of a sign-in. */
export interface SignInView {
  readonly signedIn: boolean;
  /** Somebody was sent to sign in and has not come back, or what they came back with is being exchanged for tokens. */
  readonly pending: boolean;
  /** Why the last attempt came to nothing. */
  readonly problem?: string | undefined;
}

interface Pending {
  readonly state: string;
  readonly until: number;
  readonly begun: BegunSignIn;
  /** The person is back. */
  readonly isAnswered?: boolean;
}

const CLIENT_NAME = "Toolrack";
/** How long a person may take. */
const PATIENCE = 10 * 60_000;
/** Tokens are renewed so long before they end, or when a fifth of their time is left. */
const MARGIN = 60_000;
const LONGEST_REASON = 500;
/** Before each look for what another process was given, in milliseconds. */
const PAUSES = [0, 100, 200, 300, 400];

/**
 * The rack's sign-in at one upstream server: sends a person to the page, takes the tokens, keeps them sealed, renews them
 * before they end and when they are refused, and gives them back.
 */
export class SignIn {
  readonly #options: SignInOptions;
  #kept: KeptSignIn | undefined;
  /** When the tokens are to be renewed. Milliseconds since the epoch. */
  #renewAt: number | undefined;
  /** The access token that the server has refused. */
  #refused: string | undefined;
  /** What the server has asked for beyond what was granted, to be asked for with the next sign-in. */
  #wanted: string | undefined;
  /** The client that was registered with a sign-in that nobody has finished. */
  #registered: StoredOAuthClientInformation | undefined;
  #pending: Pending | undefined;
  #problem: string | undefined;
  #renewing: Promise<KeptSignIn | undefined> | undefined;
  #finishing: Promise<void> | undefined;

  constructor(options: SignInOptions) {
    this.#options = options;
  }

  get view(): SignInView {
    const { until = 0, isAnswered = false } = this.#pending ?? {};
    return {
      signedIn: this.#kept !== undefined,
      pending: isAnswered || until > Date.now(),
      problem: this.#problem,
    };
  }

  get renewAt(): number | undefined {
    return this.#renewAt;
  }

  /** What goes with every request to the server; nothing when nobody has signed in. */
  async headers(): Promise<Readonly<Record<string, string>>> {
    const target = await this.#target();
    if (this.#kept === undefined) this.#take(await this.#read(target));
    let kept = this.#kept;
    if (this.#isStale()) {
      this.#renewing ??= this.#renew(target).finally(() => {
        this.#renewing = undefined;
      });
      kept = await this.#renewing;
    }
    return kept === undefined ? {} : { Authorization: `Bearer ${kept.tokens.access_token}` };
  }

  /** The server has refused the token. Says whether another one may be had without a person. */
  distrust(): boolean {
    const kept = this.#kept;
    if (kept === undefined || this.#refused === kept.tokens.access_token) return false;
    this.#refused = kept.tokens.access_token;
    return kept.tokens.refresh_token !== undefined || this.#isMachine;
  }

  /** The server has asked for a scope that was not granted. Answers what is to be done about it. */
  want(scope: string): string {
    const { key } = this.#options;
    this.#wanted = joinScopes(this.#wanted, scope);
    if (this.#isMachine) {
      // The next token is asked for with it.
      if (this.#kept !== undefined) this.#refused = this.#kept.tokens.access_token;
      return `Restart it, so that the rack asks for it too: ${commandFor("restart", key)}`;
    }
    return `Sign in again: ${commandFor("login", key)}, or on its page in the console. The sign-in then asks for it too.`;
  }

  /** Answers the page that a person is to be sent to, and until when it works. */
  async begin(redirectUrl: string): Promise<{ readonly url: string; readonly expiresAt: number }> {
    const { key, vault } = this.#options;
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
      const kept = await vault.read(target.url.href);
      return beginSignIn(target, {
        redirectUrl,
        state,
        kept: kept?.client ?? this.#registered,
        wanted: joinScopes(kept?.wanted, this.#wanted),
        granted: kept?.tokens.scope ?? kept?.asked,
      });
    });
    this.#registered = begun.provider.clientInformation();
    const until = Date.now() + PATIENCE;
    this.#pending = { state, until, begun };
    this.#problem = undefined;
    this.#options.onChange();
    return { url: begun.page.href, expiresAt: until };
  }

  /** Takes what the authorization server sent the person back with. Only for an attempt that was begun here, once. */
  async finish(answer: URLSearchParams): Promise<void> {
    const { key, vault } = this.#options;
    const pending = this.#pending;
    const isOurs = pending !== undefined && isSame(pending.state, answer.get("state") ?? "");
    if (!isOurs || pending.isAnswered || pending.until < Date.now()) {
      throw nobodyWaits(key);
    }
    const answered = { ...pending, isAnswered: true };
    this.#pending = answered;
    this.#finishing = this.#attempt(async () => {
      try {
        const code = answer.get("code");
        if (code === null) throw new Error(refusalIn(answer));
        vault.learn(code);
        const { finishSignIn } = await import("./oauth-flow.ts");
        const kept = await finishSignIn(pending.begun, code, answer.get("iss") ?? undefined);
        await vault.write(kept);
        this.#wanted = undefined;
        this.#registered = undefined;
        this.#take(kept);
      } finally {
        // Somebody may have begun another meanwhile.
        if (this.#pending === answered) this.#pending = undefined;
      }
    });
    await this.#finishing;
    this.#options.onChange();
  }

  /** Forgets the tokens, and has them taken back where that can be done. Never rejects because of the other side. */
  async end(): Promise<{ readonly revoked: boolean }> {
    this.#pending = undefined;
    // Tokens that are on their way would be kept after all was forgotten.
    await Promise.allSettled([this.#renewing, this.#finishing]);
    // One whose address is not known, such as that of a variable without a value, can still be forgotten.
    const target = await this.#target().catch(() => undefined);
    const before = this.#kept;
    this.#problem = undefined;
    this.#wanted = undefined;
    this.#registered = undefined;
    this.#take(undefined);
    // Another process may have renewed what is known here: the tokens that count are those that were kept.
    const kept = (await this.#options.vault.take(target?.url.href)) ?? before;
    this.#options.onChange();
    if (kept === undefined || target === undefined) return { revoked: false };
    return { revoked: await this.#giveBack(kept, target) };
  }

  /**
   * Takes over a sign-out of another process on the same store, and a sign-in where one is waited for. Says whether the
   * server is to be started anew for it. Never rejects: what cannot be read now stays as it is.
   */
  async follow(isAwaited: boolean): Promise<boolean> {
    if (this.#isMachine) return false;
    const before = this.#kept;
    let kept: KeptSignIn | undefined;
    try {
      kept = await this.#options.vault.read((await this.#target()).url.href);
    } catch {
      return false;
    }
    // A renewal that is under way looks for itself.
    if (this.#renewing !== undefined || this.#kept !== before) return false;
    const isSame = kept?.tokens.access_token === before?.tokens.access_token;
    if (isSame || (kept !== undefined && !isAwaited)) return false;
    this.#problem = undefined;
    this.#take(kept);
    this.#options.onChange();
    return true;
  }

  get #isMachine(): boolean {
    return this.#options.entry.toolrack?.oauth?.grant === "client_credentials";
  }

  async #target(): Promise<SignInTarget> {
    const { key, entry, place, surroundings } = this.#options;
    const where = `${place}: ${key}`;
    const resolved = await resolveEntry(entry, where, surroundings);
    if (resolved.kind !== "address") throw new ConfigurationError(`${where} has no url to sign in at.`);
    const settings = await resolveOAuth(entry.toolrack?.oauth ?? {}, where, surroundings);
    return { url: resolved.url, headers: resolved.headers, settings, clientName: CLIENT_NAME };
  }

  #isStale(): boolean {
    const kept = this.#kept;
    if (kept === undefined) return this.#isMachine;
    if (this.#refused === kept.tokens.access_token) return true;
    return this.#renewAt !== undefined && this.#renewAt <= Date.now();
  }

  async #renew(target: SignInTarget): Promise<KeptSignIn | undefined> {
    const before = this.#kept;
    // Another process on the same store may have renewed them, and what it was given counts.
    const other = this.#isMachine ? undefined : await this.#read(target);
    if (other !== undefined && other.tokens.access_token !== before?.tokens.access_token) {
      this.#take(other);
      if (!this.#isStale()) return other;
    }
    try {
      return await this.#fetchTokens(target);
    } catch (thrown) {
      const kept = this.#kept;
      const isUsable =
        kept !== undefined &&
        this.#refused !== kept.tokens.access_token &&
        (kept.expiresAt ?? Number.POSITIVE_INFINITY) > Date.now();
      // There is some time left, and perhaps the other side is back by then.
      if (isUsable) return kept;
      const kind = this.#isMachine && !(thrown instanceof TypeError) ? "unauthorized" : "unavailable";
      throw new UpstreamError(kind, `Its tokens could not be renewed: ${this.#describe(thrown)}`);
    }
  }

  async #fetchTokens(target: SignInTarget): Promise<KeptSignIn | undefined> {
    const { renewSignIn, signInAsMachine } = await import("./oauth-flow.ts");
    if (this.#isMachine) {
      const fresh = await signInAsMachine(target, this.#wanted);
      this.#options.vault.learn(fresh.tokens.access_token);
      this.#take(fresh);
      return fresh;
    }
    const kept = this.#kept;
    if (kept === undefined) return undefined;
    const renewed = await renewSignIn(kept, target);
    const fresh =
      renewed === undefined ? await this.#readOther(kept, target) : await this.#keep(renewed, kept, target);
    // Who signed out in another process knows why there are no more tokens.
    if (renewed === undefined && fresh === undefined && (await this.#options.vault.clear(kept)))
      this.#problem = "The authorization server gives no new tokens for the last sign-in. Sign in again.";
    this.#take(fresh);
    this.#options.onChange();
    return fresh;
  }

  /**
   * Keeps what the last sign-in was renewed to, where that is still the last one, and answers what is kept then. Who signed
   * out in another process meanwhile wants no tokens: those that came are given back.
   */
  async #keep(
    renewed: KeptSignIn,
    before: KeptSignIn,
    target: SignInTarget,
  ): Promise<KeptSignIn | undefined> {
    const { vault } = this.#options;
    if (await vault.replace(renewed, before)) return renewed;
    const other = await vault.read(target.url.href);
    // Another one may be a renewal of the same sign-in, which would end with these.
    if (other === undefined) await this.#giveBack(renewed, target);
    return other;
  }

  /** Has the tokens taken back. Says whether that was done; never rejects because of the other side. */
  async #giveBack(kept: KeptSignIn, target: SignInTarget): Promise<boolean> {
    const { revokeSignIn } = await import("./oauth-flow.ts");
    return revokeSignIn(kept, target).catch(() => false);
  }

  async #read({ url }: SignInTarget): Promise<KeptSignIn | undefined> {
    try {
      return await this.#options.vault.read(url.href);
    } catch (thrown) {
      this.#problem = this.#describe(thrown);
      return undefined;
    }
  }

  /**
   * Where tokens are renewed once only, another process on the same store may have been first. What it was given may be on
   * its way to the store.
   */
  async #readOther(kept: KeptSignIn, target: SignInTarget): Promise<KeptSignIn | undefined> {
    for (const pause of PAUSES) {
      await wait(pause);
      const other = await this.#read(target);
      if (other?.tokens.access_token !== kept.tokens.access_token) return other;
    }
    return undefined;
  }

  #take(kept: KeptSignIn | undefined): void {
    this.#kept = kept;
    this.#refused = undefined;
    const canRenew = kept?.tokens.refresh_token !== undefined || this.#isMachine;
    const { expiresAt } = kept ?? {};
    const lifetime = (kept?.tokens.expires_in ?? 0) * 1000;
    this.#renewAt =
      expiresAt === undefined || !canRenew ? undefined : expiresAt - Math.min(MARGIN, lifetime / 5);
  }

  /** What goes wrong between a person and the other side is told as it is, without what must not be seen. */
  async #attempt<Result>(work: () => Promise<Result>): Promise<Result> {
    try {
      return await work();
    } catch (thrown) {
      this.#problem = this.#describe(thrown);
      this.#options.onChange();
      if (thrown instanceof ConfigurationError) {
        throw new McpServerError("mcp_server_invalid", this.#problem);
      }
      throw new McpServerError(
        "mcp_sign_in_failed",
        `The sign-in at the MCP server "${this.#options.key}" came to nothing. ${this.#problem}`,
      );
    }
  }

  #describe(thrown: unknown): string {
    return this.#options.mask(signInProblem(thrown)).slice(0, LONGEST_REASON);
  }
}

/** The same for every key, so that a stranger does not learn which servers there are. */
export function nobodyWaits(key: string): McpServerError {
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

/** What went wrong between the rack and an authorization server, in words. They are not masked yet. */
function signInProblem(thrown: unknown): string {
  const cause = thrown instanceof Error && thrown.message === "fetch failed" ? thrown.cause : undefined;
  const plain = reasonOf(cause instanceof Error ? cause : thrown);
  return issueIn(thrown) ?? oddAnswer(thrown) ?? plain;
}

/** Of a text that has the wrong form, Zod lists everything that is wrong with it; one thing of it is enough to know. */
function issueIn(thrown: unknown): string | undefined {
  const issues: unknown = thrown instanceof Error && "issues" in thrown ? thrown.issues : undefined;
  const [first] = Array.isArray(issues) ? issues : [];
  if (!isRecord(first)) return undefined;
  const path = Array.isArray(first.path) ? first.path.join(".") : "";
  return `What the authorization server says about itself cannot be used: ${sentence(`${path}: ${String(first.message)}`)}`;
}

/** Those who answer with a good status and no JSON say nothing about why. */
function oddAnswer(thrown: unknown): string | undefined {
  if (!(thrown instanceof SyntaxError)) return undefined;
  const what = /end of JSON input/.test(thrown.message)
    ? "an answer that is empty or cut off"
    : "something that is no JSON";
  return `The authorization server sent ${what} where it should have described itself, a client or tokens. Tell whoever runs it, or register the rack there by hand and name the client in the entry: toolrack.oauth.clientId.`;
}
