/** What an operator decided about a tool. It holds for whatever tool has the name, now or later. */
export interface ToolSwitch {
  readonly toolName: string;
  readonly enabled: boolean;
  readonly by: string;
  /** Milliseconds since the epoch. */
  readonly at: number;
}

export interface ToolSwitchStore {
  /** In place of what was decided before. Resolves when it is safely written. */
  set(decided: ToolSwitch): Promise<void>;
  /** By name. */
  list(): Promise<ToolSwitch[]>;
}
