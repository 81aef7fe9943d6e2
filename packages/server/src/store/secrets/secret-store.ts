/** What may be known of a secret. */
export interface SecretInfo {
  readonly name: string;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** Keeps values that have been encrypted before they come here. */
export interface SecretStore {
  /** Replaces the value that is there. */
  set(name: string, encrypted: string): Promise<void>;
  /** Only while the value that is there is `before`. Says whether it was. */
  replace(name: string, encrypted: string, before: string): Promise<boolean>;
  get(name: string): Promise<string | undefined>;
  /** By name. */
  list(): Promise<SecretInfo[]>;
  /** Given a value, only while it is that one. */
  remove(name: string, encrypted?: string): Promise<boolean>;
}
