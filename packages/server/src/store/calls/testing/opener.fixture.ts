import { once } from "node:events";
import { openStore } from "../../store.ts";

// Opens the store when it is told to, as a process that starts does, and ends.
console.log("waiting");
await once(process.stdin, "data");
const store = await openStore({ directory: process.argv[2] ?? "" });
await store.calls.settleInterrupted();
await store.close();
process.exit(0);
