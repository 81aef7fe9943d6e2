/** Who hears the keys while a turn runs. */
export interface TurnKeys {
  /** Begins to hear, or goes on. */
  listen(): void;
  /** Leaves the terminal to others, such as a question. */
  release(): void;
}
