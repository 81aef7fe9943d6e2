import { expect, it } from "vitest";
import { measureRack } from "../bench/growth/rack.ts";

/** The short form of `npm run bench -- growth`: ten times the size must not cost ten times as much. */
it.runIf(process.platform === "linux")(
  "a rack that grows tenfold costs about as much as before",
  async () => {
    const small = { tools: 1_000, readers: 20, megabytes: 2, upstreams: 4 };
    const before = await measureRack(small);
    const after = await measureRack({ tools: 10_000, readers: 200, megabytes: 20, upstreams: 40 });
    const figure = (rows: typeof before, what: string) => rows.find((row) => row.what === what)!.value;
    for (const what of [
      "a page of the list",
      "the list after a change",
      "/openai/tools",
      "adding one skill tool",
    ]) {
      // The CPU of a process is counted in hundredths of a second.
      expect(figure(after, what), what).toBeLessThan(3 * figure(before, what) + 15);
    }
    const reader = "an event reader, for each call";
    expect(figure(after, reader), reader).toBeLessThan(3);
  },
);
