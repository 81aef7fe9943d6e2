import fc from "fast-check";
import { expect, it } from "vitest";
import { ArgumentsKey } from "./arguments.ts";
import { assessLast, assessNext } from "./detect-doom-loop.ts";
import { EntryIndex } from "./entry-index.ts";
import { emptyLoopState, memoryOf, recordInto } from "./loop-state.ts";
import { textKeys } from "./result-keys.ts";

const call = fc.record({
  tool: fc.constantFrom("get_weather", "save"),
  args: fc.record({ city: fc.constantFrom("Riga", "Oslo", "Bonn", "Rome") }),
  result: fc.constantFrom("fine", "cold", "Error: no such city", "saved 3 files", "a".repeat(300)),
  isError: fc.boolean(),
  isNamed: fc.nat(9).map((named) => named === 0),
  round: fc.constantFrom(undefined, "one", "two"),
});

it("changes nothing in what loop detection says and keeps", () => {
  fc.assert(
    fc.property(fc.array(call, { minLength: 20, maxLength: 60 }), (calls) => {
      const plain = memoryOf(emptyLoopState());
      const indexed = { ...memoryOf(emptyLoopState()), index: new EntryIndex([]) };
      for (const [at, { tool, args, result, isError, isNamed, round }] of calls.entries()) {
        const argsKey = isNamed ? JSON.stringify(args) : new ArgumentsKey(args);
        const shared = { tool, argsKey, readOnly: false, changes: false, poll: false, round };
        expect(assessNext(indexed, { ...shared, args })).toEqual(assessNext(plain, { ...shared, args }));
        const record = {
          ...shared,
          ...textKeys(result, at, isError),
          ...{ callId: `${at}`, resultLength: result.length, isError, executed: true, startedAt: at, at },
        };
        const entry = recordInto(plain, record, args);
        expect(recordInto(indexed, record, args)).toEqual(entry);
        if (entry !== undefined) expect(assessLast(indexed)).toEqual(assessLast(plain));
      }
      expect(memoryOf(indexed)).toEqual(memoryOf(plain));
    }),
  );
});
