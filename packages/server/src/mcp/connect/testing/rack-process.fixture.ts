import { UpstreamRack } from "./upstream-rack.fixture.ts";

/** A rack in a process of its own, for tests that kill it. Prints `ready` when its server is ready. */
const [folder, entry] = process.argv.slice(2);
const rack = await UpstreamRack.create(folder);
await rack.open({ odd: JSON.parse(entry ?? "{}") });
await rack.until("odd", "ready");
process.stdout.write("ready\n");
setInterval(() => {}, 1_000);
