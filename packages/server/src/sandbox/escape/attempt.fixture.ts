import type { TrapPlaces } from "./trap.fixture.ts";

/** One try to get out. Whether it worked is judged from the host: by what it answers, and by what happened outside. */
export interface Attempt {
  readonly name: string;
  /** Body of `async (trap, call) => …`, with `require`; `trap` is `TrapPlaces`. */
  readonly body: string;
  /** Also tried with no sandbox at all, where it must work: that shows that the trap would notice. */
  readonly worksOutside?: true;
  /** Level 2 does not promise this when the server is not root: the tool then has the server's own user. */
  readonly needsOwnUser?: true;
}

export type { TrapPlaces };
