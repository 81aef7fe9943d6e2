import { type ServerEntry, signsInByToken } from "../config/entry.ts";
import { SignIn, type SignInOwner } from "./sign-in.ts";
import { canSignIn, SignInVault } from "./stored-sign-in.ts";

/** The sign-ins at one server: one that all callers share, or one for each token, as the entry says. */
export class ServerSignIns {
  readonly #server: SignInOwner;
  /** Undefined when the entry is not valid. */
  readonly #entry: ServerEntry | undefined;
  /** The sign-ins that were asked for, by the ids of their tokens; `""` is that of all callers. */
  readonly #signIns = new Map<string, SignIn>();

  constructor(server: SignInOwner) {
    const { invalid, entry } = server.wanted;
    this.#server = server;
    this.#entry = invalid === undefined ? entry : undefined;
  }

  /** Whether each token signs in for itself. */
  get isByToken(): boolean {
    return this.#entry !== undefined && signsInByToken(this.#entry);
  }

  /**
   * The sign-in that counts for the token with this id. Undefined for a process, for a server whose entry has credentials,
   * and for an invalid entry.
   */
  of(token: string): SignIn | undefined {
    const entry = this.#entry;
    if (entry === undefined || !canSignIn(entry)) return undefined;
    const owner = this.isByToken ? token : "";
    const known = this.#signIns.get(owner);
    if (known !== undefined) return known;
    const { key, context } = this.#server;
    const made = new SignIn(this.#server, entry, new SignInVault(key, context.secrets, owner || undefined));
    this.#signIns.set(owner, made);
    return made;
  }

  /** The sign-in for which a person was sent away with this state, and whose it is. */
  find(state: string): { readonly owner: string; readonly signIn: SignIn } | undefined {
    for (const [owner, signIn] of this.#signIns) if (signIn.awaits(state)) return { owner, signIn };
    return undefined;
  }

  /**
   * Applies what other processes on the same store did, and returns whose sign-in changed. `isAwaited`: the server waits for
   * the sign-in that all callers share.
   */
  async follow(isAwaited: boolean): Promise<string[]> {
    const changed: string[] = [];
    for (const [owner, signIn] of this.#signIns)
      if (await signIn.follow(owner !== "" || isAwaited)) changed.push(owner);
    return changed;
  }

  /** Removes all tokens for this server, even if its entry no longer allows a sign-in. */
  async forget(): Promise<void> {
    const { key, context } = this.#server;
    const { secrets } = context;
    await Promise.all([...this.#signIns.values()].map((signIn) => signIn.end()));
    await new SignInVault(key, secrets).clear();
    for (const { name } of await secrets.list()) {
      const [, owner] = /^token\.(.+)\.mcp-oauth\./.exec(name) ?? [];
      if (owner === undefined) continue;
      const vault = new SignInVault(key, secrets, owner);
      if (vault.name === name) await vault.clear();
    }
  }
}
