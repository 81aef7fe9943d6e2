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
    await place.run(options, "delete from toolrack_migrations where name >= '0013'");
    await place.run(options, "drop table chat_usage");
    expect(await (await place.open(options)).usage.statistics({ since: 0 })).toMatchObject({ requests: 0 });
  });

  test("a database from before calls were counted has them counted in the background, each once", async () => {
    const options = await place.make();
    const before = await openStore(options);
    const id = "t1";
    await before.tokens.add({ id, name: "ann", scopes: { tools: ["*"] }, createdAt: 1 }, "HASH");
    const timestamp = Date.now();
    const made = [
      { callId: "own", caller: `ann_${id}` },
      { callId: "made by own", caller: "some_tool", parentCallId: "own", timestamp: timestamp + 1 },
      { callId: "of the operator", caller: "http" },
      { callId: "unwanted", error: { name: "E", code: "cancelled", message: "m", recoverable: true } },
    ] as const;
    for (const call of made) {
      const status = "error" in call ? "error" : "completed";
      await before.calls.finished(
        makeRecord({ timestamp, status, toolName: "old", ...call }),
        textResult("x"),
      );
    }
    const extra = Array.from({ length: 1_200 }, (_, n) =>
      makeRecord({ timestamp: timestamp - n, toolName: "many" }),
    );
    await Promise.all(extra.map((record) => before.calls.finished(record, textResult("x"))));
    await before.close();
    for (const statement of [
      "delete from toolrack_migrations where name >= '0014'",
      "drop table call_counts",
      "update calls set owner = null",
    ])
      await place.run(options, statement);

    const store = await place.open(options);
    const window = { since: timestamp - 60_000, until: timestamp + 60_000 };
    await store.calls.finished(makeRecord({ timestamp, toolName: "new" }), textResult("x"));
    expect((await store.calls.statistics(window)).calls).toBe(1);
    await store.prune({});
    await store.prune({});
    const { tools } = await store.calls.statistics(window);
    expect(tools.map(({ toolName, calls, cancelled }) => [toolName, calls, cancelled])).toEqual([
      ["many", 1_200, 0],
      ["old", 4, 1],
      ["new", 1, 0],
    ]);
    const { items } = await store.calls.list({ owner: `ann_${id}` });
    expect(items.map(({ callId }) => callId)).toEqual(["made by own", "own"]);
  });

  test("calls in loops of an older database, which has the loop among other flags, are still found", async () => {
    const options = await place.make();
    const before = await openStore(options);
    const loop = { action: "nudge", count: 3, evidence: "the same call" } as const;
    for (const callId of ["looped", "other"])
      await before.calls.finished(makeRecord({ callId, flags: { loop } }), textResult("x"));
    await before.close();
    const flags = (loop: string) => `{"dropped":["a"],"${loop}":{"count":3},"via":"client 1.0"}`;
    for (const statement of [
      "delete from toolrack_migrations where name >= '0042'",
      `update calls set flags = '${flags("loop")}' where call_id = 'looped'`,
      `update calls set flags = '${flags("looped")}' where call_id = 'other'`,
    ])
      await place.run(options, statement);
    const store = await place.open(options);
    const { items } = await store.calls.list({ flag: "loop" });
    expect(items.map(({ callId }) => callId)).toEqual(["looped"]);
    expect(items[0]).toMatchObject({ flags: { dropped: ["a"], loop: { count: 3 } }, via: "client 1.0" });
  });

  test("a database from before questions knew by what a call was made gets the column for it", async () => {
    const options = await place.make();
    await (await openStore(options)).close();
    await place.run(options, "delete from toolrack_migrations where name >= '0018'");
    await place.run(options, "alter table approvals drop column via");
    const { approvals } = await place.open(options);
    const question = { callId: "c", toolName: "t", displayName: "t", input: {}, message: "May it?" };
    const asked = { ...question, dangerous: true, stage: "before", sessionID: "", caller: "http" } as const;
    const added = await approvals.add("q", { ...asked, expiresAt: Date.now() + 60_000, via: "client 1.0" });
    expect(added.via).toBe("client 1.0");
    expect((await approvals.get("q"))?.via).toBe("client 1.0");
  });

  test("an older database that counted days by tool only is counted in all too, and its tools are listed", async () => {
    const options = await place.make();
    const before = await place.open(options);
    const timestamp = Date.now() - 12 * 86_400_000;
    for (const toolName of ["one", "one", "two"])
      await before.calls.finished(makeRecord({ timestamp, toolName }), textResult("x"));
    await before.close();
    for (const statement of [
      "delete from toolrack_migrations where name >= '0015'",
      "delete from call_counts where span = 'day' and tool_name = ''",
      "drop table tool_days",
    ])
      await place.run(options, statement);
    const store = await place.open(options);
    const { calls, buckets, tools } = await store.calls.statistics({
      since: timestamp - 86_400_000,
      until: Date.now(),
    });
    expect([calls, buckets.map((bucket) => bucket.calls)]).toEqual([3, [3]]);
    expect(tools.map(({ toolName, calls }) => [toolName, calls])).toEqual([
      ["one", 2],
      ["two", 1],
    ]);
  });

  test("a store can be closed twice, and takes nothing afterwards", async () => {
    const store = await openStore(await place.make());
    await store.close();
    await store.close();
    await expect(store.calls.finished(makeRecord(), textResult("late"))).rejects.toThrow("destroyed");
  });
}
