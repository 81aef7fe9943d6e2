import { createCipheriv, createDecipheriv, createHash, randomBytes } from "node:crypto";
import { SecretError } from "./secret-error.ts";

const ALGORITHM = "aes-256-gcm";
const VERSION = "v1";
/** As GCM wants it. Random each time: one key encrypts far fewer values than would make two alike. */
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

export const KEY_BYTES = 32;

/**
 * Encrypts values as `v1.<key's id>.<nonce>.<tag>.<text>`. The name is authenticated with the value, so that whoever
 * can write to the database cannot give one secret the value of another.
 */
export class ValueCipher {
  readonly #key: Buffer;
  readonly #keyId: string;

  constructor(key: Buffer) {
    this.#key = key;
    this.#keyId = createHash("sha256").update("toolrack key id").update(key).digest("hex").slice(0, 12);
  }

  encrypt(name: string, value: string): string {
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv(ALGORITHM, this.#key, nonce).setAAD(Buffer.from(name));
    const text = Buffer.concat([cipher.update(value, "utf8"), cipher.final()]);
    const parts = [nonce, cipher.getAuthTag(), text].map((part) => part.toString("base64url"));
    return [VERSION, this.#keyId, ...parts].join(".");
  }

  /** Throws `SecretError` for anything that this key did not encrypt under this name. */
  decrypt(name: string, encrypted: string): string {
    const [version, keyId, ...parts] = encrypted.split(".");
    if (version === VERSION && keyId !== this.#keyId) {
      throw new SecretError(
        `The secret "${name}" was encrypted with another key than this workspace has now. Bring that key back, or set the secret again.`,
      );
    }
    const [nonce, tag, text] = parts.map((part) => Buffer.from(part, "base64url"));
    if (version !== VERSION || nonce?.length !== NONCE_BYTES || tag?.length !== TAG_BYTES || !text) {
      throw damaged(name);
    }
    const decipher = createDecipheriv(ALGORITHM, this.#key, nonce, { authTagLength: TAG_BYTES })
      .setAAD(Buffer.from(name))
      .setAuthTag(tag);
    try {
      return Buffer.concat([decipher.update(text), decipher.final()]).toString("utf8");
    } catch {
      throw damaged(name);
    }
  }
}

function damaged(name: string): SecretError {
  return new SecretError(
    `The stored value of the secret "${name}" was changed since it was set, so it is not used. Set it again.`,
  );
}
