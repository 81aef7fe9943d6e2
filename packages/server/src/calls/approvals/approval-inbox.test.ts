import { join } from "node:path";
import { Tool, ToolRegistry } from "@toolrack/core";
import { describe, expect, it } from "vitest";
import { masterGrant } from "../../access/grants.ts";
import type { StoredApproval } from "../../store/approvals.ts";
import { openStore, type Store } from "../../store/store.ts";

import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";
import { ApprovalInbox } from "./inbox.ts";

const admin = (name: string) => ({ name, grant: masterGrant });
const silent = { debug() {}, info() {}, warn() {}, error() {} };

const wipe = Tool.define({
  name: "wipe",
  description: "Wipes.",
  metadata: { dangerous: true },
  parameters: {
    type: "object",
    properties: { path: { type: "string" }, password: { type: "string" } },
    required: ["path"],
  },
  execute: async ({ input }) => `wiped ${JSON.stringify(input)}`,
});

/** A rack whose dangerous tools ask the inbox. */
class Rack {
  readonly store: Store;
  readonly inbox: ApprovalInbox;
  readonly registry: ToolRegistry;
  readonly seen: StoredApproval[] = [];
  #onSeen = () => {};

  constructor(store: Store, inbox: ApprovalInbox, timeout?: number) {
    this.store = store;
    this.inbox = inbox;
    const { policy } = inbox;
    const approval = timeout === undefined ? policy : { ask: policy.ask!, timeout };
    this.registry = new ToolRegistry({ approval });
    this.registry.register(wipe);
    inbox.subscribe((approval) => {
      this.seen.push(approval);
      this.#onSeen();
    });
  }

  async told(state: StoredApproval["state"]): Promise<StoredApproval> {
    for (;;) {
      const found = this.seen.findLast((approval) => approval.state === state);
      if (found !== undefined) return found;
      await new Promise<void>((resolve) => {
        this.#onSeen = resolve;
      });
    }
  }
}

async function withRack(
  use: (rack: Rack, directory: string) => Promise<void>,
  timeout?: number,
): Promise<void> {
  await using workspace = await TemporaryWorkspace.create();
  const directory = join(workspace.directory, ".toolrack");
  const store = await openStore({ directory });
  const inbox = await ApprovalInbox.open({ store, logger: silent, secrets: () => ["sesame-street"] });
  await use(new Rack(store, inbox, timeout), directory);
  await inbox.close();
  await store.close();
}

describe("the inbox", () => {
  it("keeps no secret, and runs edited arguments with the secrets that were sent", async () => {
    await withRack(async ({ registry, inbox }) => {
      const call = registry.execute("wipe", { path: "of sesame-street", password: "hunter22" });
      const [question] = await waitingIn(inbox);
      expect(question!.input).toEqual({ path: "of [redacted]", password: "[redacted]" });
      const edited = { path: "b", password: "[redacted]" };
      const answered = await inbox.answer(
        question!.id,
        { decision: "allow", arguments: edited },
        admin("tester"),
      );
      expect(answered).toMatchObject({ outcome: "accepted", approval: { arguments: edited } });
      expect((await call).content).toContain('wiped {"path":"b","password":"hunter22"}');
    });
  });

  it("has edited arguments validated like any others", async () => {
    await withRack(async ({ registry, inbox }) => {
      const call = registry.execute("wipe", { path: "a" });
      const [question] = await waitingIn(inbox);
      await inbox.answer(question!.id, { decision: "allow", arguments: { path: 7 } }, admin("tester"));
      expect((await call).error?.code).toBe("invalid_arguments");
    });
  });

  it("takes only the first of answers that come at once", async () => {
    await withRack(async ({ registry, inbox }) => {
      const call = registry.execute("wipe", { path: "a" });
      const [question] = await waitingIn(inbox);
      const answers = await Promise.all([
        inbox.answer(question!.id, { decision: "deny", reason: "no" }, admin("one")),
        inbox.answer(question!.id, { decision: "allow" }, admin("other")),
      ]);
      expect(answers.map((answered) => answered?.outcome)).toEqual(["accepted", "decided"]);
      expect((await call).error?.code).toBe("approval_denied");
    });
  });

  it("closes a question that nobody answered in time", async () => {
    await withRack(async (rack) => {
      const { error } = await rack.registry.execute("wipe", { path: "a" });
      expect(error?.code).toBe("approval_denied");
      const { id } = await rack.told("expired");
      expect(await rack.inbox.answer(id, { decision: "allow" }, admin("late"))).toMatchObject({
        outcome: "decided",
      });
    }, 60);
  });

  it("closes a question whose call was cancelled", async () => {
    await withRack(async (rack) => {
      const call = rack.registry.execute("wipe", { path: "a" }, { callId: "c1" });
      await waitingIn(rack.inbox);
      expect(rack.registry.getState("c1")?.status).toBe("pending");
      rack.registry.cancel("c1", "changed my mind");
      expect((await call).error?.code).toBe("cancelled");
      expect(await rack.told("denied")).toMatchObject({ decidedBy: "toolrack" });
    });
  });

  it("refuses what waits when the server stops, and all that comes after", async () => {
    await withRack(async ({ registry, inbox }) => {
      const waiting = registry.execute("wipe", { path: "a" });
      await waitingIn(inbox);
      inbox.stop();
      const late = registry.execute("wipe", { path: "b" });
      for (const { content } of [await waiting, await late])
        expect(content).toContain("the server is stopping");
    });
  });

  it("answers by rule without asking, also after a restart", async () => {
    await withRack(async ({ registry, inbox, store }) => {
      const call = registry.execute("wipe", { path: "tmp/a" });
      const [question] = await waitingIn(inbox);
      const rule = { tool: "wi*", input: { path: "tmp/*" } };
      await inbox.answer(question!.id, { decision: "allow", rule }, admin("tester"));
      await call;
      expect((await registry.execute("wipe", { path: "tmp/b" })).content).toContain("wiped");

      const next = await ApprovalInbox.open({ store, logger: silent });
      const restarted = new Rack(store, next).registry;
      expect((await restarted.execute("wipe", { path: "tmp/c" })).content).toContain("wiped");
      await next.addRule({ tool: "*", decision: "deny" }, admin("tester"));
      expect((await restarted.execute("wipe", { path: "tmp/c" })).error?.code).toBe("approval_denied");
      expect(await next.removeRule(next.rules[1]!.id, admin("tester"))).toBe(true);
      expect((await restarted.execute("wipe", { path: "tmp/c" })).content).toContain("wiped");
      expect((await next.list({})).items).toHaveLength(1);
    });
  });

  describe("after the process of a call has ended", () => {
    const request = {
      toolName: "wipe",
      displayName: "wipe",
      input: { path: "tmp/z" },
      message: "?",
      dangerous: true,
      stage: "before" as const,
      sessionID: "",
      caller: "tester",
      expiresAt: Date.now() + 60_000,
    };

    it("closes the questions whose call cannot be made anew, and leaves what waits in a process that lives", async () => {
      await withRack(async ({ store }, directory) => {
        const gone = await openStore({ directory });
        await gone.approvals.add("dead", { ...request, callId: "c-dead" });
        await gone.close();
        await store.approvals.add("alive", { ...request, callId: "c-alive" });

        const next = await ApprovalInbox.open({ store, logger: silent });
        expect(await next.get("dead")).toMatchObject({ state: "denied", decidedBy: "toolrack" });
        expect((await next.list({ state: "pending" })).items.map(({ id }) => id)).toEqual(["alive"]);
        expect(await next.answer("alive", { decision: "allow" }, admin("tester"))).toMatchObject({
          outcome: "elsewhere",
        });
      });
    });

    it("keeps the others open, and makes the call once somebody agrees", async () => {
      await withRack(async ({ store }, directory) => {
        const gone = await openStore({ directory });
        await gone.approvals.add("kept", { ...request, callId: "c-kept" }, true);
        await gone.approvals.add("edited", { ...request, callId: "c-edited" }, true);
        await gone.close();

        const ran: unknown[] = [];
        const registry = new ToolRegistry({
          approval: {
            decide: (asked, tool) => next.policy.decide?.(asked, tool) ?? (asked.dangerous ? "ask" : "allow"),
            ask: (...asked) => next.policy.ask!(...asked),
          },
        });
        registry.register(
          Tool.define({
            name: "wipe",
            parameters: { type: "object", properties: { path: { type: "string" } } },
            metadata: { dangerous: true },
            execute: async ({ input, callId }) => void ran.push({ input, callId }),
          }),
        );
        const next: ApprovalInbox = await ApprovalInbox.open({
          store,
          logger: silent,
          resume: ({ callId, approval }) => registry.execute(approval.toolName, approval.input, { callId }),
        });
        const { items } = await next.list({ state: "pending" });
        expect(items.map(({ id }) => id).sort()).toEqual(["edited", "kept"]);
        const answered = await next.answer("kept", { decision: "allow" }, admin("tester"));
        expect(answered).toMatchObject({ outcome: "accepted", approval: { state: "allowed" } });
        await expect.poll(() => ran).toEqual([{ input: { path: "tmp/z" }, callId: "c-kept-resumed" }]);
        // What a person wrote is what runs, whatever the rules say of such calls by then.
        await next.addRule({ tool: "wipe", decision: "allow" }, admin("tester"));
        await next.answer("edited", { decision: "allow", arguments: { path: "tmp/y" } }, admin("tester"));
        await next.close();
        expect(ran.at(-1)).toEqual({ input: { path: "tmp/y" }, callId: "c-edited-resumed" });
        expect(registry.getCallHistory(1)[0]?.flags).toMatchObject({ edited: true });
        expect(await next.answer("kept", { decision: "deny" }, admin("tester"))).toMatchObject({
          outcome: "decided",
        });
      });
    });
  });
});

async function waitingIn(inbox: ApprovalInbox): Promise<readonly StoredApproval[]> {
  return expect
    .poll(async () => (await inbox.list({ state: "pending" })).items, { interval: 5 })
    .toHaveLength(1)
    .then(async () => (await inbox.list({ state: "pending" })).items);
}
