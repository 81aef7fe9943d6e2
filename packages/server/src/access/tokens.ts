import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { join } from "node:path";
import { v7 as uuid } from "uuid";
import { problemOfToolPattern } from "../config/index.ts";
import { makeOwnFile, readOwnFile } from "../helpers/index.ts";
import { readFleetVariable } from "../helpers/private-files.ts";
import type { Store, StoredToken, TokenStore } from "../store/index.ts";
import { type Grant, grantOf, isExpired, masterGrant } from "./grants.ts";

export type Authentication =
  | { readonly ok: true; readonly grant: Grant }
  | { readonly ok: false; readonly reason: "missing" | "malformed" | "unknown" | "expired" };

interface Credentials {
  readonly authorization: string | undefined;
  /**
   * A token from the URL, for event streams in a browser, which cannot send headers. URLs end up in histories and logs,
   * so nothing else accepts it, and a header takes precedence.
   */
  readonly query?: string | undefined;
}

interface CachedGrant {
  readonly grant: Grant | undefined;
  readonly until: number;
}

/**
 * How long, in milliseconds, a looked-up token is cached: a token revoked on another node works no longer than this.
 */
const CACHE_MS = 5_000;
const MOST_CACHED = 1_000;
/** Milliseconds between two notes in the store that a token is in use. */
const TOUCH_EVERY_MS = 60_000;

const masterAuthentication: Authentication = { ok: true, grant: masterGrant };

/** Finds the grant of the token in a request. */
export class Authenticator {
  readonly #master: Buffer;
  readonly #tokens: TokenStore;
  /**
   * Grants by the header or the URL's token as it came, so that a token is not hashed and looked up anew for
   * every request. The map's own hash covers all bytes and uses a key that only this process has, so the time
   * of a miss tells nothing about its entries.
   */
  readonly #cached = new Map<string, CachedGrant>();
  readonly #touched = new Map<string, number>();

  constructor(master: string, tokens: TokenStore) {
    this.#master = Buffer.from(hashToken(master));
    this.#tokens = tokens;
  }

  /** Returns without a promise when the token is cached. */
  authenticate({ authorization, query }: Credentials): Authentication | Promise<Authentication> {
    const given = authorization ?? query;
    if (given === undefined) return { ok: false, reason: "missing" };
    const known = this.#cached.get(given);
    if (known?.grant === masterGrant) return masterAuthentication;
    if (known !== undefined && known.until > performance.now()) return this.#authenticationFor(known.grant);
    const token =
      authorization === undefined ? given : /^Bearer +([\w.~+/-]+=*) *$/i.exec(authorization)?.[1];
    if (token === undefined) return { ok: false, reason: "malformed" };
    return this.#find(hashToken(token), given).then((grant) => this.#authenticationFor(grant));
  }

  /** Must be called when a token was revoked in this process, so that it stops working at once. */
  forget(): void {
    this.#cached.clear();
  }

  async #find(hash: string, given: string): Promise<Grant | undefined> {
    const until = performance.now() + CACHE_MS;
    // Hashes are compared in constant time, so that the time tells neither the length nor any byte of the token.
    const isMaster = timingSafeEqual(Buffer.from(hash), this.#master);
    const stored = isMaster ? undefined : await this.#tokens.findByHash(hash);
    const grant = isMaster ? masterGrant : stored && grantOf(stored);
    if (this.#cached.size >= MOST_CACHED) this.#cached.clear();
    this.#cached.set(given, { grant, until });
    return grant;
  }

  #authenticationFor(grant: Grant | undefined): Authentication {
    if (grant === masterGrant) return masterAuthentication;
    if (grant === undefined) return { ok: false, reason: "unknown" };
    if (isExpired(grant)) return { ok: false, reason: "expired" };
    this.#touch(grant.id, Date.now());
    return { ok: true, grant };
  }

  #touch(id: string, now: number): void {
    if (now - (this.#touched.get(id) ?? 0) < TOUCH_EVERY_MS) return;
    this.#touched.set(id, now);
    // Failing to note the last use is no reason to refuse a request.
    this.#tokens.touch(id, now).catch(() => this.#touched.delete(id));
  }
}

export type TokenRequest = Pick<StoredToken, "name" | "scopes" | "expiresAt">;

/** In characters. The name of a token is part of every record of its calls. */
const LONGEST_NAME = 100;

/** Makes a token. Only the returned value holds its text: the store keeps the hash. */
export async function issueToken(
  tokens: TokenStore,
  given: TokenRequest,
): Promise<{ readonly token: string; readonly stored: StoredToken }> {
  if (given.name.trim() === "" || given.name.length > LONGEST_NAME) {
    throw new Error(`A token needs a name of at most ${LONGEST_NAME} characters.`);
  }
  for (const pattern of [...(given.scopes.tools ?? []), ...(given.scopes.approve ?? [])]) {
    const problem = problemOfToolPattern(pattern);
    if (problem !== undefined) throw new Error(problem);
  }
  const token = `trk_${randomBytes(32).toString("base64url")}`;
  const stored: StoredToken = { id: uuid(), createdAt: Date.now(), ...given };
  await tokens.add(stored, hashToken(token));
  return { token, stored };
}

const SHORTEST = 16;

/**
 * The workspace's own token: that of the variable `TOOLRACK_OPERATOR_TOKEN`, or else one that is made at the first start in a file
 * that only its owner can read. Two servers that start at once get the same token.
 */
export async function ensureMasterToken(workspace: string): Promise<string> {
  const given = await readFleetVariable("TOOLRACK_OPERATOR_TOKEN");
  if (given !== undefined)
    return checkToken(given, "TOOLRACK_OPERATOR_TOKEN, or the file that TOOLRACK_OPERATOR_TOKEN_FILE names,");
  const file = join(workspace, ".toolrack", "token");
  const existing = await readToken(file);
  if (existing !== undefined) return existing;
  await makeOwnFile(file, `${randomBytes(32).toString("base64url")}\n`);
  const token = await readToken(file);
  if (token === undefined) throw new Error(`The token file ${file} vanished while it was being made.`);
  return token;
}

async function readToken(file: string): Promise<string | undefined> {
  const token = await readOwnFile(file);
  return token === undefined ? undefined : checkToken(token, file);
}

function checkToken(token: string, place: string): string {
  if (token.length >= SHORTEST && !/\s/.test(token)) return token;
  throw new Error(
    `${place} holds no usable token: at least ${SHORTEST} characters without spaces. Delete it, and the next start makes a new one.`,
  );
}

/** Throws unless this node has the workspace's token of all others on the same database. */
export async function requireSharedToken(token: string, identity: Store["identity"]): Promise<void> {
  if ((await identity.agree("token", hashToken(token))) === hashToken(token)) return;
  throw new Error(
    "This node has another token of its own than the database was first used with. All nodes need the same one: give each the variable TOOLRACK_OPERATOR_TOKEN (or TOOLRACK_OPERATOR_TOKEN_FILE), or copy the file .toolrack/token of the first node. To change it on all, delete the row 'token' of the table identity while no node runs.",
  );
}

/** The hash that the store keeps. A token has 256 random bits, so a plain hash cannot be reversed by guessing. */
export function hashToken(token: string): string {
  return createHash("sha256").update(token).digest("hex");
}
