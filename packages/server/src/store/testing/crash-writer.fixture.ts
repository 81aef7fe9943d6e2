import { writeSync } from "node:fs";
import { openStore } from "../store.ts";
import { makeRecord, makeStart, textResult } from "./records.fixture.ts";

// Writes calls until it is killed, and tells the id of each one that was acknowledged. Every fiftieth result is a blob.
const [directory = "", prefix = ""] = process.argv.slice(2);
const store = await openStore({ directory });
const endless = makeRecord({ callId: `${prefix}-endless` });
store.calls.started(makeStart(endless));

let next = 0;
async function work(): Promise<void> {
  for (;;) {
    const n = next++;
    const record = makeRecord({ callId: `${prefix}-${n}`, sessionID: prefix });
    store.calls.started(makeStart(record));
    if (n % 3 === 0) await new Promise((resolve) => setTimeout(resolve, n % 13));
    const content = n % 50 === 0 ? `${n}:`.padEnd(70_000, "x") : `${n}:`;
    await store.calls.finished(record, textResult(content));
    writeSync(1, `${n}\n`);
  }
}
for (let worker = 0; worker < 20; worker++) void work();
