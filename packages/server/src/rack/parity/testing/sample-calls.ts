import { answeredCalls } from "./answered-calls.ts";
import { failedCalls } from "./failed-calls.ts";
import type { SampleCall } from "./sample-call.ts";

/** The calls that every surface makes, with the answers and records that are expected. */
export const sampleCalls: readonly SampleCall[] = [...answeredCalls, ...failedCalls];
