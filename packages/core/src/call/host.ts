import type { ToolEntry } from "../registry/entry.ts";
import type { RegistrySnapshot } from "../registry/snapshot.ts";
import type { RegistryView } from "../registry/view.ts";
import type { ToolResult } from "../tool/result.ts";
import type { Deadlines } from "./deadlines.ts";
import type { EventHub } from "./events.ts";
import type { CallFrame } from "./frame.ts";
import type { CallHistory } from "./history.ts";
import type { KeptResults } from "./kept-results.ts";
import type { LoopSessions } from "./loop-sessions.ts";
import type { CallOptions } from "./options.ts";
import type { CheckedSettings } from "./settings.ts";

/** What the stages need of the registry they run in. */
export interface CallHost {
  readonly settings: CheckedSettings;
  readonly history: CallHistory;
  readonly results: KeptResults;
  readonly sessions: LoopSessions;
  readonly deadlines: Deadlines;
  readonly events: EventHub;
  /** Calls that wait for a person to agree before they run. */
  readonly undecided: Set<CallFrame>;
  readonly toolCount: number;
  find(name: string): ToolEntry | undefined;
  nearest(name: string): string[];
  snapshot(): RegistrySnapshot;
  view(frame: CallFrame): RegistryView;
  /** Makes a call as a child of `parent`; rejects with the child's `ToolError` when it fails. */
  callChild(parent: CallFrame, name: string, input: unknown, options: CallOptions): Promise<ToolResult>;
}
