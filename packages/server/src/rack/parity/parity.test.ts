import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ParityRack } from "./testing/parity-rack.ts";
import { type Recorded, recordedOf, withoutIds } from "./testing/recorded.ts";
import type { Answer, Exception, SampleCall } from "./testing/sample-call.ts";
import { sampleCalls } from "./testing/sample-calls.ts";
import { type Surface, type SurfaceName, surfaceNames } from "./testing/surface.ts";

/** What came of a call. */
interface Outcome {
  readonly answer: Answer | "none";
  readonly record: Recorded | "none";
  readonly caller?: string;
}

const LIMIT = 120_000;
let rack: ParityRack;
/** All calls are begun at once; each test waits for its own. */
const outcomes = new Map<string, Promise<Outcome>>();

beforeAll(async () => {
  rack = await ParityRack.start();
  for (const surface of rack.surfaces) {
    for (const call of sampleCalls) {
      const outcome = outcomeOf(surface, call);
      outcome.catch(() => {});
      outcomes.set(sessionOf(surface.name, call), outcome);
    }
  }
}, LIMIT);

afterAll(async () => {
  await Promise.allSettled(outcomes.values());
  await rack?.[Symbol.asyncDispose]();
}, LIMIT);

describe.each(surfaceNames)("%s", (name) => {
  it.each(sampleCalls.map((call) => [call.title, call] as const))(
    "%s: what comes back and what is recorded is the same",
    async (_title, call) => {
      const surface = rack.surfaces.find((one) => one.name === name)!;
      const exception = call.except?.[name];
      const outcome = await outcomes.get(sessionOf(name, call))!;
      expect(outcome.answer).toEqual(expectedAnswer(call, surface, exception));
      if (exception?.record === "none") {
        expect(outcome.record).toBe("none");
        return;
      }
      expect(outcome.record).toMatchObject({ ...call.record, ...exception?.record });
      const model = await outcomes.get(sessionOf("library", call))!;
      expect(outcome.record).toEqual({ ...(model.record as Recorded), ...exception?.record }); // The library records all.
      expect(outcome.caller).toBe(surface.caller);
    },
    LIMIT,
  );
});

async function outcomeOf(surface: Surface, call: SampleCall): Promise<Outcome> {
  const session = sessionOf(surface.name, call);
  const { answer = "none", callId } = await surface.make(call, session);
  if (call.except?.[surface.name]?.record === "none") {
    const { items } = await rack.serving.store.calls.list({ session });
    return { answer, record: items.length === 0 ? "none" : await recordedOf(rack.serving.store, items[0]!) };
  }
  const ended = await rack.ended(session, callId);
  const record = await recordedOf(rack.serving.store, ended);
  return { answer: nameless(answer, ended.callId), record, caller: ended.caller };
}

/** What the table says, without what the surface has no place for. */
function expectedAnswer(
  call: SampleCall,
  { lacks }: Surface,
  exception: Exception | undefined,
): Answer | "none" {
  if (exception?.answer === "none") return "none";
  if (exception?.answer?.refusal !== undefined) return exception.answer;
  const carried = Object.entries(call.answer).filter(([field]) => !Object.hasOwn(lacks, field));
  return { ...Object.fromEntries(carried), ...exception?.answer };
}

/** A text may name its call. */
function nameless(answer: Answer | "none", callId: string): Answer | "none" {
  if (answer === "none" || answer.text === undefined) return answer;
  return { ...answer, text: withoutIds(answer.text, callId) };
}

/** Every call has a session of its own, by which its record is found. */
function sessionOf(surface: SurfaceName, call: SampleCall): string {
  return `${surface}: ${call.title}`;
}
