import type { ApprovalRequest } from "@toolrack/core";
import { beforeAll, describe, expect, test } from "vitest";
import type { NewSchedule } from "../schedules.ts";
import type { Store } from "../store.ts";
import type { TestPlace } from "./engines.fixture.ts";
import { makeRecord, textResult } from "./records.fixture.ts";

/** What every engine must do with tokens, approvals, secrets, schedules and the registry's version. */
export function testSmallStores(place: TestPlace): void {
  let store: Store;
  /** Another node of the same database. */
  let other: Store;
  beforeAll(async () => {
    const options = await place.make();
    store = await place.open(options);
    other = await place.open(options);
  });

  describe("tokens", () => {
    test("are found by their hash and by nothing else", async () => {
      const token = {
        id: "t1",
        name: "Büro 😀",
        scopes: { tools: ["file_*"], admin: false },
        createdAt: 1_000,
        expiresAt: 2_000,
      };
      await store.tokens.add(token, "HASH");
      expect(await other.tokens.findByHash("HASH")).toEqual(token);
      expect(await store.tokens.findByHash("hash")).toBeUndefined();
      await expect(store.tokens.add({ ...token, id: "t2" }, "HASH")).rejects.toThrow();
      expect(await store.tokens.list()).toEqual([token]);
    });

    test("remember their last use, and are gone when removed", async () => {
      await store.tokens.touch("t1", 5_000);
      await store.tokens.touch("t1", 4_000);
      expect((await store.tokens.findByHash("HASH"))?.lastUsedAt).toBe(5_000);
      expect(await store.tokens.remove("t1")).toBe(true);
      expect(await store.tokens.remove("t1")).toBe(false);
      expect(await store.tokens.findByHash("HASH")).toBeUndefined();
    });
  });

  describe("the usage of models", () => {
    const one = {
      caller: "tester_1",
      model: "local/模型",
      session: "s1",
      estimated: false,
      promptTokens: 3_000_000_000,
      cachedTokens: 10,
      completionTokens: 5,
      // Three times twice this is 0.6000000000000001 for a computer.
      cost: 0.1,
    };
    const other1 = { ...one, session: "", promptTokens: 1, estimated: true, cost: 0 };

    test("is added up over several nodes by day, caller, model and session", async () => {
      const add = async (node: Store) => {
        node.usage.add(one);
        node.usage.add(one);
        node.usage.add(other1);
        await node.usage.settle();
      };
      await Promise.all([add(store), add(other)]);
      await add(store);
      const sums = {
        requests: 9,
        estimated: 3,
        promptTokens: 18_000_000_003,
        cachedTokens: 90,
        completionTokens: 45,
        cost: 0.6,
      };
      const session = {
        ...{ requests: 6, estimated: 0, promptTokens: 18_000_000_000 },
        ...{ cachedTokens: 60, completionTokens: 30, cost: 0.6 },
      };
      const found = await other.usage.statistics({ since: Date.now() - 86_400_000 });
      expect(found).toMatchObject({
        ...sums,
        callers: [{ caller: "tester_1", ...sums }],
        models: [{ model: "local/模型", ...sums }],
        sessions: [{ session: "s1", ...session }],
      });
      expect(found.days.reduce((sum, { requests }) => sum + requests, 0)).toBe(9);
      expect(store.usage.counted()).toMatchObject([{ caller: "tester_1", model: "local/模型", requests: 6 }]);
      const later = await store.usage.statistics({ since: Date.now() + 2 * 86_400_000 });
      expect(later).toMatchObject({ requests: 0, cost: 0, days: [], sessions: [] });
    });

    test("is deleted by whole days", async () => {
      await store.usage.prune(Date.now() - 3 * 86_400_000);
      expect(await store.usage.statistics({ since: 0 })).toMatchObject({ requests: 9 });
      await store.usage.prune(Date.now() + 2 * 86_400_000);
      expect(await store.usage.statistics({ since: 0 })).toMatchObject({ requests: 0, models: [] });
    });
  });

  describe("approvals", () => {
    const request = (callId: string, expiresAt = Date.now() + 60_000): ApprovalRequest => ({
      callId,
      toolName: "file_delete",
      displayName: "Delete/删除",
      input: { path: "a\0b" },
      message: "Delete it?",
      details: { files: 3 },
      dangerous: true,
      stage: "before",
      sessionID: "s",
      caller: "agent",
      expiresAt,
    });

    test("are kept as they were asked", async () => {
      const asked = request("c1");
      expect(await store.approvals.add("a1", asked)).toMatchObject({ ...asked, id: "a1", state: "pending" });
      expect(await other.approvals.get("a1")).toMatchObject({ ...asked, id: "a1", state: "pending" });
      expect(await store.approvals.get("a0")).toBeUndefined();
      expect(await store.approvals.get("\0")).toBeUndefined();
    });

    test("take one answer, however many are given at once", async () => {
      const answers = await Promise.all([
        store.approvals.decide("a1", { decision: "allow", arguments: { path: "b" } }, "Ann"),
        other.approvals.decide("a1", { decision: "deny", reason: "no" }, "Bob"),
        store.approvals.decide("a1", { decision: "deny" }, "Cid"),
      ]);
      const accepted = answers.filter((answer) => answer?.isAccepted);
      expect(accepted).toHaveLength(1);
      const late = await store.approvals.decide("a1", { decision: "deny" }, "Dan");
      expect(late).toEqual({ isAccepted: false, approval: accepted[0]?.approval });
      expect(await store.approvals.decide("nobody", { decision: "deny" }, "Ann")).toBeUndefined();
    });

    test("keep the reason, the changed arguments and who decided", async () => {
      await store.approvals.add("a2", request("c2"));
      const arguments_ = { path: "c" };
      const decision = { decision: "allow", arguments: arguments_, reason: "only this" } as const;
      const rule = { tool: "file_*", input: { path: "c" }, exact: true };
      await store.approvals.decide("a2", decision, "Ann", rule);
      expect(await other.approvals.get("a2")).toMatchObject({
        state: "allowed",
        decidedBy: "Ann",
        reason: "only this",
        arguments: arguments_,
        input: { path: "a\0b" },
        rule,
      });
    });

    test("expire, and take no answer afterwards", async () => {
      await store.approvals.add("a3", request("c3", Date.now() - 1));
      await store.approvals.add("a4", request("c4", Date.now() - 1));
      const late = await store.approvals.decide("a3", { decision: "allow" }, "Ann");
      expect(late).toMatchObject({ isAccepted: false, approval: { state: "expired" } });
      await store.approvals.add("a5", request("c5"));
      expect(await store.approvals.expire(Date.now() + 120_000)).toBe(1);
      expect((await store.approvals.get("a5"))?.state).toBe("expired");
    });

    test("are listed in pages, newest first", async () => {
      const first = await store.approvals.list({ limit: 3 });
      const second = await store.approvals.list({ limit: 3, cursor: first.next! });
      expect([...first.items, ...second.items].map(({ id }) => id).sort()).toEqual([
        "a1",
        "a2",
        "a3",
        "a4",
        "a5",
      ]);
      expect((await store.approvals.list({ state: "allowed" })).items.map(({ id }) => id)).toContain("a2");
      await expect(store.approvals.list({ cursor: "x" })).rejects.toThrow("cursor");
    });

    test("are found by the session of their call", async () => {
      await store.approvals.add("a6", { ...request("c6"), sessionID: "another" });
      const { items } = await other.approvals.list({ session: "another" });
      expect(items.map(({ id }) => id)).toEqual(["a6"]);
      expect((await store.approvals.list({ session: "another", state: "denied" })).items).toEqual([]);
      expect((await store.approvals.list({ session: "nobody's" })).items).toEqual([]);
      await store.approvals.decide("a6", { decision: "deny" }, "Ann");
    });

    test("are answered for another node, which takes the answer once", async () => {
      await store.approvals.add("a7", request("c7"), true);
      await store.approvals.add("a8", request("c8", Date.now() + 3_000));
      const allow = { decision: "allow" } as const;
      expect(await store.approvals.decideElsewhere("a7", allow, "Ann")).toMatchObject({ isAccepted: false });
      expect(await store.approvals.findDecided(["a7", "a8"])).toEqual([]);
      expect(await store.approvals.take("a7")).toBe(false);
      const answers = await Promise.all([
        other.approvals.decideElsewhere("a7", { ...allow, reason: "fine" }, "Ann"),
        other.approvals.decideElsewhere("a7", { ...allow, reason: "well" }, "Bob"),
      ]);
      expect(answers.filter((answer) => answer?.isAccepted)).toHaveLength(1);
      expect(await other.approvals.decideElsewhere("a8", allow, "Ann")).toMatchObject({ isAccepted: false });
      expect(await store.approvals.findDecided(["a7", "a8"])).toMatchObject([{ id: "a7", state: "allowed" }]);
      // Its node lives.
      expect(await other.approvals.takeOrphans()).toEqual([]);
      const taken = await Promise.all([store.approvals.take("a7"), other.approvals.take("a7")]);
      expect(taken.sort()).toEqual([false, true]);
      await store.approvals.decide("a8", { decision: "deny" }, "Ann");
    });

    test("have rules for calls to come", async () => {
      const always = { id: "r1", tool: "file_*", decision: "allow", createdBy: "Ann", createdAt: 1 } as const;
      const once = {
        id: "r2",
        tool: "file_delete",
        decision: "deny",
        input: { path: "/etc" },
        exact: true,
        sessionID: "s",
        caller: "agent",
        createdBy: "Bob",
        createdAt: 2,
      } as const;
      await store.approvals.addRule(once);
      await store.approvals.addRule(always);
      expect(await other.approvals.listRules()).toEqual([always, once]);
      expect(await store.approvals.removeRule("r1")).toBe(true);
      expect(await other.approvals.removeRule("r1")).toBe(false);
      expect(await other.approvals.removeRule("\0")).toBe(false);
    });

    test("keep the pattern of a rule as it was given, or refuse it", async () => {
      const rule = (tool: string) =>
        ({ id: "r3", tool, decision: "deny", createdBy: "Ann", createdAt: 3 }) as const;
      const longest = `mcp:git/${"x".repeat(192)}`;
      await store.approvals.addRule(rule(longest));
      expect((await other.approvals.listRules()).find(({ id }) => id === "r3")).toEqual(rule(longest));
      await store.approvals.removeRule("r3");
      for (const tool of [`${longest}x`, "mcp:git ", "mcp:git/\0", "mcp:git/\ud800"]) {
        await expect(store.approvals.addRule(rule(tool))).rejects.toThrow(/at most 200 characters/);
      }
      expect((await other.approvals.listRules()).some(({ id }) => id === "r3")).toBe(false);
    });
  });

  describe("secrets", () => {
    test("are set, replaced, listed without their values, and removed", async () => {
      await store.secrets.set("API_KEY", "v1:encrypted");
      await Promise.all([store.secrets.set("OTHER", "x"), other.secrets.set("OTHER", "x")]);
      await other.secrets.set("API_KEY", "v2:encrypted");
      expect(await store.secrets.get("API_KEY")).toBe("v2:encrypted");
      expect(await store.secrets.get("api_key")).toBeUndefined();
      const listed = await store.secrets.list();
      expect(listed.map(({ name }) => name)).toEqual(["API_KEY", "OTHER"]);
      expect(JSON.stringify(listed)).not.toContain("encrypted");
      expect(await store.secrets.replace("API_KEY", "v3:encrypted", "another")).toBe(false);
      expect(await store.secrets.replace("NONE", "v3:encrypted", "v2:encrypted")).toBe(false);
      expect(await store.secrets.get("API_KEY")).toBe("v2:encrypted");
      expect(await store.secrets.replace("API_KEY", "v3:encrypted", "v2:encrypted")).toBe(true);
      expect(await other.secrets.get("API_KEY")).toBe("v3:encrypted");
      expect(await store.secrets.remove("API_KEY", "another")).toBe(false);
      expect(await store.secrets.remove("API_KEY", await store.secrets.get("API_KEY"))).toBe(true);
      expect(await store.secrets.remove("API_KEY")).toBe(false);
      await expect(store.secrets.set("n".repeat(300), "x")).rejects.toThrow("too long");
    });
  });

  describe("settings", () => {
    test("are set, replaced, listed with their values, and removed, apart from secrets", async () => {
      await store.settings.set("weather/TIMEOUT", "5000");
      await other.settings.set("weather/TIMEOUT", "6000");
      expect(await store.settings.get("weather/TIMEOUT")).toBe("6000");
      expect(await store.settings.entries()).toMatchObject([{ name: "weather/TIMEOUT", value: "6000" }]);
      expect(await store.secrets.get("weather/TIMEOUT")).toBeUndefined();
      expect(await other.settings.remove("weather/TIMEOUT")).toBe(true);
      expect(await store.settings.list()).toEqual([]);
    });
  });

  describe("schedules", () => {
    const schedule = (id: string, nextRunAt: number): NewSchedule => ({
      id,
      toolName: "report",
      arguments: { day: "月曜" },
      caller: `schedule_tool_${id}`,
      timing: { kind: "cron", expression: "0 9 * * 1", timeZone: "Asia/Tokyo" },
      missed: "run",
      nextRunAt,
    });

    test("come due in order, far in the future too", async () => {
      const far = Date.UTC(2200, 0);
      await store.schedules.add(schedule("s2", 2_000));
      await store.schedules.add(schedule("s1", 1_000));
      await store.schedules.add(schedule("s3", far));
      expect(await other.schedules.nextRunAt()).toBe(1_000);
      expect((await store.schedules.listDue(5_000)).map(({ id }) => id)).toEqual(["s1", "s2"]);
      expect((await store.schedules.listDue(1_999)).map(({ id }) => id)).toEqual(["s1"]);
      expect(await store.schedules.get("s3")).toMatchObject({
        arguments: { day: "月曜" },
        timing: { kind: "cron", timeZone: "Asia/Tokyo" },
        nextRunAt: far,
        runs: 0,
      });
    });

    test("give each due time to one caller", async () => {
      const step = (callId: string) => ({ dueAt: 1_000, nextRunAt: 9_000, callId });
      const taken = await Promise.all([
        store.schedules.advance("s1", step("c1")),
        other.schedules.advance("s1", step("c2")),
        store.schedules.advance("s1", step("c3")),
      ]);
      expect(taken.filter((isTaken) => isTaken === true)).toHaveLength(1);
      expect(await store.schedules.get("s1")).toMatchObject({ runs: 1, nextRunAt: 9_000, state: "active" });
    });

    test("can pass over a time, finish, and be cancelled", async () => {
      expect(await store.schedules.advance("s1", { dueAt: 9_000, nextRunAt: 10_000 })).toBe(true);
      const { runs, lastCallId } = (await store.schedules.get("s1"))!;
      expect(runs).toBe(1);
      // The call was given out a moment ago and may be about to begin, until it is on record.
      expect(await store.schedules.advance("s1", { dueAt: 10_000, callId: "last" })).toBe("busy");
      await store.calls.finished(makeRecord({ callId: lastCallId! }), textResult("ok"));
      const advance = () => store.schedules.advance("s1", { dueAt: 10_000, callId: "last" });
      await expect.poll(advance).toBe(true);
      const finished = await store.schedules.get("s1");
      expect(finished).toMatchObject({ state: "finished", runs: 2, lastCallId: "last" });
      expect(finished).not.toHaveProperty("nextRunAt");
      expect(await store.schedules.cancel("s1")).toBe(false);
      expect(await other.schedules.cancel("s2")).toBe(true);
      expect(await store.schedules.advance("s2", { dueAt: 2_000, callId: "late" })).toBe(false);
      expect((await store.schedules.list()).map(({ id, state }) => `${id} ${state}`)[0]).toBe("s3 active");
      expect(await store.schedules.list({ state: "cancelled" })).toHaveLength(1);
    });

    test("are deleted some time after they ended, and never while they are active", async () => {
      await store.prune({ maxAge: 60_000 });
      expect((await store.schedules.list()).map(({ id }) => id).sort()).toEqual(["s1", "s2", "s3"]);
      await store.prune({ maxAge: -1_000 });
      expect((await other.schedules.list()).map(({ id }) => id)).toEqual(["s3"]);
    });

    test("are listed with the 500 that ended last, and for one caller alone", async () => {
      for (let n = 0; n < 510; n++) {
        await store.schedules.add({ ...schedule(`old${n}`, 1_000), caller: n % 2 ? "odd" : "even" });
        await store.schedules.cancel(`old${n}`);
      }
      const all = await store.schedules.list();
      expect(all).toHaveLength(501);
      expect(all[0]?.id).toBe("s3");
      expect(await store.schedules.list({ state: "open" })).toHaveLength(1);
      expect(await store.schedules.list({ state: "cancelled", caller: "odd" })).toHaveLength(255);
      expect(await store.schedules.list({ state: "open", caller: "odd" })).toEqual([]);
      await store.schedules.prune(Date.now() + 1);
      expect(await store.schedules.list()).toHaveLength(1);
    });
  });

  describe("switches of tools", () => {
    test("keep the last decision, by whom and when, whatever the case of the name", async () => {
      const off = { toolName: "file_delete", enabled: false, by: "Ann", at: 1_000 };
      const on = { toolName: "File_Delete", enabled: true, by: "Bob", at: 2_000 };
      await store.toolSwitches.set(off);
      expect(await other.toolSwitches.list()).toEqual([off]);
      await other.toolSwitches.set(on);
      const another = { toolName: "a_tool", enabled: false, by: "Ann", at: 3_000 };
      await Promise.all([store.toolSwitches.set(another), other.toolSwitches.set(another)]);
      expect(await store.toolSwitches.list()).toEqual([another, on]);
    });
  });

  test("the registry's version rises by one for everybody who counts", async () => {
    const before = await store.registryVersion.read();
    const versions = await Promise.all(
      Array.from({ length: 10 }, (_, n) => (n % 2 ? store : other).registryVersion.bump()),
    );
    const expected = Array.from({ length: 10 }, (_, n) => before + n + 1);
    expect(versions.sort((a, b) => a - b)).toEqual(expected);
    expect(await other.registryVersion.read()).toBe(before + 10);
  });

  describe("MCP servers", () => {
    test("are kept part by part, also when only a file names them", async () => {
      await store.mcpServers.put("from_file", { verdict: { era: "legacy" } });
      await store.mcpServers.put("own", {
        entry: { command: "server", env: { 名: "值😀" } },
        enabled: false,
      });
      await other.mcpServers.put("own", { enabled: null, catalogue: { tools: [] } });
      expect(await store.mcpServers.list()).toEqual([
        expect.objectContaining({ key: "from_file" }),
        expect.objectContaining({ key: "own", entry: { command: "server", env: { 名: "值😀" } } }),
      ]);
      expect(await store.mcpServers.get("from_file")).toMatchObject({ verdict: { era: "legacy" } });
      expect(await store.mcpServers.get("own")).toMatchObject({ catalogue: { tools: [] } });
      expect(await store.mcpServers.get("own")).not.toHaveProperty("enabled");
    });

    test("take what is known about their tools with them", async () => {
      const name = "read.file/😀";
      const approved = { definition: { name: "x" }, at: 5, by: "ada" };
      await store.mcpServers.putTool("own", name, { approved });
      await other.mcpServers.putTool("own", name, { pending: { name: "y" }, override: { rename: "z" } });
      expect(await store.mcpServers.tools("own")).toEqual([
        {
          server: "own",
          name,
          approved: { name: "x" },
          approvedAt: 5,
          approvedBy: "ada",
          pending: { name: "y" },
          override: { rename: "z" },
        },
      ]);
      expect(await store.mcpServers.tools("Own")).toEqual([]);
      expect(await store.mcpServers.remove("own")).toBe(true);
      expect(await store.mcpServers.remove("own")).toBe(false);
      expect(await store.mcpServers.tools("own")).toEqual([]);
    });

    test("are added once, also by two at a time and where something was learnt before", async () => {
      await store.mcpServers.put("own", { verdict: { era: "modern" } });
      const added = await Promise.all([
        store.mcpServers.add("own", { command: "one" }),
        other.mcpServers.add("own", { command: "other" }),
        store.mcpServers.add("new", { command: "one" }),
        other.mcpServers.add("new", { command: "other" }),
      ]);
      expect([added.slice(0, 2).sort(), added.slice(2).sort()]).toEqual([
        [false, true],
        [false, true],
      ]);
      const [own, fresh] = [added[0] ? "one" : "other", added[2] ? "one" : "other"];
      expect(await store.mcpServers.get("own")).toMatchObject({ entry: { command: own } });
      expect(await store.mcpServers.get("new")).toMatchObject({ entry: { command: fresh } });
    });

    test("leave the names that they had", async () => {
      await store.mcpServers.put("own", { entry: {} });
      await store.mcpServers.claimNames("own", ["mcp_own_a", "mcp_own_b"]);
      await Promise.all([
        store.mcpServers.claimNames("own", ["mcp_own_b", "mcp_own_c"]),
        other.mcpServers.claimNames("own", ["mcp_own_c"]),
        other.mcpServers.claimNames("Own", ["mcp_own_a"]),
      ]);
      await store.mcpServers.remove("own");
      const names = (await other.mcpServers.names()).map(({ name, server }) => `${name} ${server}`);
      expect(await store.mcpServers.countNames()).toBe(names.length);
      expect(names.sort()).toEqual(["mcp_own_a Own", "mcp_own_a own", "mcp_own_b own", "mcp_own_c own"]);
    });

    test("count a version for what other processes must follow, and none for what was learnt", async () => {
      const { mcpServers, registryVersion } = store;
      const counts = async (write: Promise<unknown>) => {
        await write;
        return (await registryVersion.read()) - before;
      };
      const before = await registryVersion.read();
      expect(await counts(mcpServers.put("x", { entry: {} }))).toBe(1);
      expect(await counts(mcpServers.put("x", { verdict: {}, catalogue: {} }))).toBe(1);
      expect(await counts(mcpServers.put("x", { enabled: false }))).toBe(2);
      expect(await counts(mcpServers.putTool("x", "a", { pending: {} }))).toBe(2);
      expect(await counts(mcpServers.putTool("x", "a", { override: {} }))).toBe(3);
      const approved = { definition: {}, at: 1, by: "ada" };
      expect(await counts(mcpServers.putTool("x", "a", { approved, pending: null }))).toBe(4);
      expect(await counts(mcpServers.remove("x"))).toBe(5);
      expect(await counts(mcpServers.claimNames("x", ["mcp_x_a"]))).toBe(6);
      expect(await counts(mcpServers.claimNames("x", ["mcp_x_a"]))).toBe(6);
      expect(await counts(mcpServers.add("x", {}))).toBe(7);
      expect(await counts(mcpServers.add("x", {}))).toBe(7);
      expect(await counts(mcpServers.tellOthers())).toBe(8);
    });
  });
}
