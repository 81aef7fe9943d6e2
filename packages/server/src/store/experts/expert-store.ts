import type { SeenVersion } from "../skills/skill-store.ts";

/** A named set of skills and single tools: what one kind of caller is given. */
export interface StoredExpert {
  readonly id: string;
  /** Unique, whatever the case of its letters. Stands in addresses: `/mcp/{name}`. */
  readonly name: string;
  readonly description: string;
  /** What a model is told that speaks as this expert. */
  readonly instructions: string;
  /** Ids of skills, in their order. */
  readonly skills: readonly string[];
  /** Patterns of tools, as the scopes of tokens have them. */
  readonly tools: readonly string[];
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  readonly updatedAt: number;
}

export type NewExpert = Pick<StoredExpert, "name"> & Partial<Omit<StoredExpert, "createdAt" | "updatedAt">>;
export type ExpertChanges = Partial<Omit<StoredExpert, "id" | "createdAt" | "updatedAt">>;

/** A name that another expert has already. */
export class ExpertConflictError extends Error {
  override readonly name = "ExpertConflictError";
  readonly field: string;

  constructor(field: string, message: string) {
    super(message);
    this.field = field;
  }
}

/** Every change counts in the registry's version. A name or id that is taken is refused with `ExpertConflictError`. */
export interface ExpertStore {
  /** In order of their making. */
  list(): Promise<StoredExpert[]>;
  add(expert: NewExpert): Promise<StoredExpert>;
  /** Every change gives a later `updatedAt`. Another version than the one seen is refused with `SkillChangedError`. */
  update(id: string, changes: ExpertChanges, version?: SeenVersion): Promise<StoredExpert | undefined>;
  remove(id: string): Promise<boolean>;
}
