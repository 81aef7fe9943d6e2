import type { AdmittedCall, HandedCall, PerformedCall, ToolErrorResponse } from "@toolrack/core";
import type { StartedCall } from "../store/index.ts";

/** All that a worker needs to perform a call, as it stands encrypted in the call's row or in its job. */
export interface Handover {
  readonly call: AdmittedCall;
  readonly lane: string;
  readonly version: string;
  readonly isIdempotent: boolean;
  /** The process that admitted the call. */
  readonly instance: string;
  /** What the room of calls has to say of the call, for its record. */
  readonly about: unknown;
  /** From what the row is made, when the worker may be quicker than the server to write it. */
  readonly started?: StartedCall | undefined;
}

/** What stands in a queue: which call it is and, unless that is long, the handover. */
export interface LaneJob {
  readonly callId: string;
  readonly handover?: string;
  /** The job is the first for the call, so that no worker has had it. */
  readonly isFirst?: boolean;
}

/** Characters of a handover that may stand in a queue. */
export const LONGEST_JOB = 32 * 1024;

/** The id of a call's job. BullMQ takes no colons and no plain numbers. */
export function jobIdOf(callId: string): string {
  return /^[A-Za-z0-9_-]*[A-Za-z_-][A-Za-z0-9_-]*$/.test(callId)
    ? callId
    : `call-${Buffer.from(callId).toString("hex")}`;
}

/** The topics of the channel: what nodes say of one call, what workers say of themselves, and the question who is there. */
export const CALL = "lane-call";
export const WORKER = "lane-worker";
export const WHO = "lane-who";

/** What a tool says while it runs. */
export type LaneEvent =
  | { readonly type: "progress"; readonly update: Parameters<HandedCall["progress"]>[0] }
  | {
      readonly type: "log";
      readonly level: Parameters<HandedCall["log"]>[0];
      readonly text: string;
      readonly at: number;
    }
  | { readonly type: "state"; readonly update: Parameters<HandedCall["state"]>[0] };

type Client = NonNullable<HandedCall["client"]>;

/** What a worker says to a server of a call that it performs. */
export type WorkerNews =
  | { readonly kind: "began" | "declined" }
  | { readonly kind: "ended"; readonly performed: PerformedCall; readonly isRecorded: boolean }
  | { readonly kind: "events"; readonly events: readonly LaneEvent[] }
  | { readonly kind: "notify"; readonly method: string; readonly params: object };

/** What a worker asks a server for a call that it performs. The answer is a `Reply`. */
export type WorkerQuestion =
  | {
      readonly kind: "call";
      readonly name: string;
      readonly input: unknown;
      readonly options: Parameters<HandedCall["call"]>[2];
    }
  | {
      readonly kind: "ask";
      readonly text: string;
      readonly details: Readonly<Record<string, unknown>> | undefined;
    }
  | { readonly kind: "client"; readonly method: Parameters<Client["request"]>[0]; readonly params: object };

export type WorkerMessage = { readonly callId: string } & (WorkerNews | WorkerQuestion);

/** The answer to a question. An error of the rack keeps its form on the way. */
export interface Reply {
  readonly value?: unknown;
  readonly error?: ToolErrorResponse;
}

/** What a server says to the worker of a call. */
export type ServerMessage = { readonly callId: string } & (
  | { readonly kind: "abort"; readonly error: ToolErrorResponse }
  | { readonly kind: "waiting"; readonly isWaiting: boolean }
);
