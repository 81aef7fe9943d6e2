/** Where the operating system keeps passwords. */
export interface Keyring {
  /** Rejects when the keyring is locked or not there. */
  read(account: string): Promise<string | undefined>;
  /** Rejects when it was not kept. */
  write(account: string, password: string): Promise<void>;
}

const SERVICE = "toolrack";

/** The keyring of the user, or nothing where its package is not installed or `TOOLRACK_KEYRING` is `off`. */
export async function osKeyring(): Promise<Keyring | undefined> {
  if (process.env.TOOLRACK_KEYRING === "off") return undefined;
  // An optional dependency: it has no build for every platform.
  const native = await import("@napi-rs/keyring").catch(() => undefined);
  if (native === undefined) return undefined;
  // Linux would otherwise fall back to the kernel's keyring, which forgets everything at the next boot.
  const open = (account: string) =>
    new native.AsyncEntry(SERVICE, account, { linux: { store: "secret-service" } });
  return {
    read: async (account) => (await open(account).getPassword()) ?? undefined,
    write: async (account, password) => {
      const entry = open(account);
      await entry.setPassword(password);
      if ((await entry.getPassword()) !== password) throw new Error("The keyring did not keep the key.");
    },
  };
}
