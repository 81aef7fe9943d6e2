import { writeSync } from "node:fs";
import { makeRecord, makeStart, textResult } from "../../testing/records.fixture.ts";
import { openHeldBack } from "./held-back-calls.fixture.ts";

// Finishes calls that stay in its journal, says so, and waits to be killed.
const [directory = "", prefix = "", count = "0"] = process.argv.slice(2);
const { calls } = await openHeldBack(directory);
const noted = makeRecord({ callId: `${prefix}-noted`, sessionID: prefix });
const endless = makeRecord({ callId: `${prefix}-endless`, sessionID: prefix });
calls.started(makeStart(noted));
calls.started(makeStart(endless));
await calls.flush();
const line = { at: 1_700_000_000_000, level: "warn", text: "said before" } as const;
await calls.finished(noted, textResult("noted first"), { log: [line] });
const long = makeRecord({ callId: `${prefix}-long`, sessionID: prefix });
await calls.finished(long, textResult("a part"), {
  replayOf: "the-original",
  whole: `${"長".repeat(30_000)}the end`,
});
const twin = { callId: `${prefix}-twin`, sessionID: prefix };
await calls.finished(makeRecord(twin), textResult("first"));
await calls.finished(makeRecord(twin), textResult("second"));
for (let n = 0; n < Number(count); n++) {
  await calls.finished(makeRecord({ callId: `${prefix}-${n}`, sessionID: prefix }), textResult(`${n}:`));
}
writeSync(1, "all are safe\n");
setInterval(() => {}, 1_000);
