import { expect, test } from "vitest";
import { openStore } from "../store.ts";
import type { TestPlace } from "./engines.fixture.ts";
import { makeRecord, textResult } from "./records.fixture.ts";

/** What every engine must do when a store is opened. */
export function testOpening(place: TestPlace): void {
  test("an empty database may be opened by many at once, and its records are there the next time", async () => {
    const options = await place.make();
    const stores = await Promise.all(Array.from({ length: 4 }, () => openStore(options)));
    const record = makeRecord();
    await stores[0]!.calls.finished(record, textResult("kept"));
    await Promise.all(stores.map((store) => store.close()));
    const again = await place.open(options);
    expect((await again.calls.get(record.callId))?.result.content).toBe("kept");
  });

  test("a database of a newer version is refused and left as it is", async () => {
    const options = await place.make();
    await (await openStore(options)).close();
    await place.run(
      options,
      "insert into toolrack_migrations (name, timestamp) values ('9999_later', '2999-01-01')",
    );
    await expect(openStore(options)).rejects.toThrow(/newer version of Toolrack \(it has 9999_later/);
    await place.run(options, "delete from toolrack_migrations where name = '9999_later'");
    await place.open(options);
  });

  test("a database from before the first release, which remembers eleven steps, is used as it is", async () => {
    const options = await place.make();
    await (await openStore(options)).close();
    await place.run(options, "delete from toolrack_migrations where name <> '0011_tables'");
    await place.run(options, "update toolrack_migrations set name = '0011_mcp_names'");
    await place.run(
      options,
      "insert into toolrack_migrations (name, timestamp) values ('0001_first_tables', '2026-01-01')",
    );
    expect((await (await place.open(options)).calls.list({})).items).toEqual([]);
  });

  test("a database from before the usage of models was counted gets the table for it", async () => {
    const options = await place.make();
    await (await openStore(options)).close();
    await place.run(options, "delete from toolrack_migrations where name = '0013_usage'");
    await place.run(options, "drop table chat_usage");
    expect(await (await place.open(options)).usage.statistics({ since: 0 })).toMatchObject({ requests: 0 });
  });

  test("a store can be closed twice, and takes nothing afterwards", async () => {
    const store = await openStore(await place.make());
    await store.close();
    await store.close();
    await expect(store.calls.finished(makeRecord(), textResult("late"))).rejects.toThrow("destroyed");
  });
}
