import { createHash, createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { v7 as uuid } from "uuid";
import { problemOfToolPattern } from "../config/index.ts";
import { makeOwnFile, readOwnFile } from "../helpers/index.ts";
import type { StoredToken, TokenStore } from "../store/index.ts";
import { type Grant, grantOf, masterGrant } from "./grants.ts";

export type Authentication =
  | { readonly ok: true; readonly grant: Grant }
  | { readonly ok: false; readonly reason: "missing" | "malformed" | "unknown" | "expired" };

interface Credentials {
  /** The `Authorization` header. */
  readonly authorization: string | undefined;
  /**
   * A token from the URL, for readers of an event stream in a browser, which cannot send headers. URLs end up in
   * histories and logs, so nothing else takes one, and the header wins where there is one.
   */
  readonly query?: string | undefined;
}

interface Known {
  readonly grant: Grant | undefined;
  readonly until: number;
}

/** A token as it is compared and looked up. */
interface Hashed {
  readonly hash: string;
  readonly isMaster: boolean;
}

/** A token that was taken back works no longer than this. */
const REMEMBER = 5_000;
const MOST_REMEMBERED = 1_000;
/** How often the store is told that a token is in use. */
const TOUCH_EVERY = 60_000;

const masterFound: Authentication = { ok: true, grant: masterGrant };

/** Says who bears a token. */
export class Authenticator {
  readonly #master: Buffer;
  readonly #tokens: TokenStore;
  readonly #known = new Map<string, Known>();
  readonly #touched = new Map<string, number>();
  /**
   * Of headers that let somebody in before, so that a token is not hashed anew with every request. Whether it still does
   * is asked each time. Where a header stands in the map follows from all of its bytes and a key that only this process
   * has: how long it takes to miss one tells nothing of those that are in it.
   */
  readonly #hashed = new Map<string, Hashed>();

  constructor(master: string, tokens: TokenStore) {
    this.#master = Buffer.from(hashToken(master));
    this.#tokens = tokens;
  }

  /** Answers at once when it knows the token. */
  authenticate({ authorization, query }: Credentials): Authentication | Promise<Authentication> {
    if (authorization === undefined) {
      return query === undefined ? { ok: false, reason: "missing" } : this.#check(this.#hash(query));
    }
    const known = this.#hashed.get(authorization);
    if (known?.isMaster) return masterFound;
    return known === undefined ? this.#readHeader(authorization) : this.#check(known);
  }

  /** To be called when a token was taken back here, so that it opens nothing any more. */
  forget(): void {
    this.#known.clear();
  }

  async #readHeader(authorization: string): Promise<Authentication> {
    const bearer = /^Bearer +([\w.~+/-]+=*) *$/i.exec(authorization)?.[1];
    if (bearer === undefined) return { ok: false, reason: "malformed" };
    const hashed = this.#hash(bearer);
    const found = await this.#check(hashed);
    if (!found.ok) return found;
    if (this.#hashed.size >= MOST_REMEMBERED) this.#hashed.clear();
    this.#hashed.set(authorization, hashed);
    return found;
  }

  #hash(token: string): Hashed {
    const hash = hashToken(token);
    // Hashes are compared, so that neither the length nor any byte of the token shows in the time it takes.
    return { hash, isMaster: timingSafeEqual(Buffer.from(hash), this.#master) };
  }

  #check({ hash, isMaster }: Hashed): Authentication | Promise<Authentication> {
    if (isMaster) return masterFound;
    const now = performance.now();
    const known = this.#known.get(hash);
    if (known !== undefined && known.until > now) return this.#judge(known.grant);
    return this.#find(hash, now).then((grant) => this.#judge(grant));
  }

  #judge(grant: Grant | undefined): Authentication {
    if (grant === undefined) return { ok: false, reason: "unknown" };
    const now = Date.now();
    if (grant.expiresAt !== undefined && grant.expiresAt <= now) return { ok: false, reason: "expired" };
    this.#touch(grant.id, now);
    return { ok: true, grant };
  }

  async #find(hash: string, now: number): Promise<Grant | undefined> {
    const stored = await this.#tokens.findByHash(hash);
    const grant = stored === undefined ? undefined : grantOf(stored);
    if (this.#known.size >= MOST_REMEMBERED) this.#known.clear();
    this.#known.set(hash, { grant, until: now + REMEMBER });
    return grant;
  }

  #touch(id: string, now: number): void {
    if (now - (this.#touched.get(id) ?? 0) < TOUCH_EVERY) return;
    this.#touched.set(id, now);
    // When a token was last used is good to know, and no reason to refuse a request.
    this.#tokens.touch(id, now).catch(() => this.#touched.delete(id));
  }
}

export interface TokenWish {
  readonly name: string;
  readonly scopes: StoredToken["scopes"];
  /** Milliseconds since the epoch. */
  readonly expiresAt?: number;
}

/** Records name tokens, and keep names only up to some length. */
const LONGEST_NAME = 100;

/** Makes a token. Its text is in the answer and nowhere else: the store keeps only the hash. */
export async function issueToken(
  tokens: TokenStore,
  wish: TokenWish,
): Promise<{ readonly token: string; readonly stored: StoredToken }> {
  if (wish.name.trim() === "" || wish.name.length > LONGEST_NAME) {
    throw new Error(`A token needs a name of at most ${LONGEST_NAME} characters.`);
  }
  for (const pattern of [...(wish.scopes.tools ?? []), ...(wish.scopes.approve ?? [])]) {
    const problem = problemOfToolPattern(pattern);
    if (problem !== undefined) throw new Error(problem);
  }
  const token = `trk_${randomBytes(32).toString("base64url")}`;
  const stored: StoredToken = { id: uuid(), createdAt: Date.now(), ...wish };
  await tokens.add(stored, hashToken(token));
  return { token, stored };
}

const SHORTEST = 16;

/**
 * The workspace's own token, made at the first start and kept where only its owner can read it. Two servers that
 * start at once agree on one.
 */
export async function ensureMasterToken(workspace: string): Promise<string> {
  const file = join(workspace, ".toolrack", "token");
  const existing = await readToken(file);
  if (existing !== undefined) return existing;
  await makeOwnFile(file, `${randomBytes(32).toString("base64url")}\n`);
  const token = await readToken(file);
  if (token === undefined) throw new Error(`The token file ${file} vanished while it was being made.`);
  return token;
}

/** Undefined when none has been made yet, or it cannot be read. Changes nothing. */
export async function readMasterToken(workspace: string): Promise<string | undefined> {
  const text = await readFile(join(workspace, ".toolrack", "token"), "utf8").catch(() => "");
  return text.trim() || undefined;
}

async function readToken(file: string): Promise<string | undefined> {
  const token = await readOwnFile(file);
  if (token !== undefined && (token.length < SHORTEST || /\s/.test(token))) {
    throw new Error(
      `${file} holds no usable token: at least ${SHORTEST} characters without spaces. Delete it, and the next start makes a new one.`,
    );
  }
  return token;
}

/** What is kept of a token. A token holds 256 random bits, so a plain hash cannot be turned back by guessing. */
export function hashToken(token: string): string {
  return createHash("sha256").update(token).digest("hex");
}

/** What is asked of somebody who says to be the server: different each time, so that no answer can be used again. */
export function newNonce(): string {
  return randomBytes(24).toString("base64url");
}

/**
 * Shows that whoever answers knows the workspace's token, without showing the token. The port is part of it: a program
 * on another port cannot have the server answer in its place.
 */
export function serverProof(token: string, port: number, nonce: string): string {
  return createHmac("sha256", token).update(`toolrack server\n${port}\n${nonce}`).digest("base64url");
}

export function isServerProof(given: unknown, token: string, port: number, nonce: string): boolean {
  if (typeof given !== "string") return false;
  const [one, other] = [Buffer.from(given), Buffer.from(serverProof(token, port, nonce))];
  return one.length === other.length && timingSafeEqual(one, other);
}
