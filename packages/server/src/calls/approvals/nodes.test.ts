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

/** One of the processes that share a store. */
class Node {
  readonly store: Store;
  readonly inbox: ApprovalInbox;
  readonly registry: ToolRegistry;
  readonly ran: unknown[];

  private constructor(store: Store, inbox: ApprovalInbox, registry: ToolRegistry, ran: unknown[]) {
    this.store = store;
    this.inbox = inbox;
    this.registry = registry;
    this.ran = ran;
  }

  static async open(directory: string, timeout?: number): Promise<Node> {
    const store = await openStore({ directory });
    const ran: unknown[] = [];
    const inbox: ApprovalInbox = await ApprovalInbox.open({
      store,
      logger: silent,
      secrets: () => ["sesame-street"],
      timeout: () => timeout,
      registry: () => registry,
      resume: ({ callId, approval }) => registry.execute(approval.toolName, approval.input, { callId }),
    });
    const registry = new ToolRegistry({ approval: inbox.policy });
    registry.register(
      Tool.define({
        name: "wipe",
        description: "Wipes.",
        metadata: { dangerous: true },
        parameters: {
          type: "object",
          properties: { path: { type: "string" }, password: { type: "string", maxLength: 9 } },
          required: ["path"],
        },
        execute: async ({ input, callId }) => {
          ran.push({ input, callId });
          return `wiped ${JSON.stringify(input)}`;
        },
      }),
    );
    return new Node(store, inbox, registry, ran);
  }

  async question(): Promise<StoredApproval> {
    const list = async () => (await this.inbox.list({ state: "pending" })).items;
    await expect.poll(list, { interval: 5 }).toHaveLength(1);
    return (await list())[0]!;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.inbox.close();
    await this.store.close();
  }
}

async function withNodes(use: (here: Node, there: Node) => Promise<void>, timeout?: number): Promise<void> {
  await using workspace = await TemporaryWorkspace.create();
  const directory = join(workspace.directory, ".toolrack");
  await using here = await Node.open(directory, timeout);
  await using there = await Node.open(directory, timeout);
  await use(here, there);
}

describe("a question that waits on another node of the same store", { timeout: 30_000 }, () => {
  it("is answered with yes or no, and its call goes on where it waits", async () => {
    await withNodes(async (here, there) => {
      const told: string[] = [];
      here.inbox.subscribe(({ state, decidedBy }) => told.push(`${state} ${decidedBy}`));
      const allowed = here.registry.execute("wipe", { path: "a" });
      const first = await there.question();
      expect(await there.inbox.answer(first.id, { decision: "allow" }, admin("ada"))).toMatchObject({
        outcome: "accepted",
        approval: { state: "allowed", decidedBy: "ada" },
      });
      expect((await allowed).content).toContain('wiped {"path":"a"}');
      expect(told).toContain("allowed ada");

      const denied = here.registry.execute("wipe", { path: "b" });
      const second = await there.question();
      await there.inbox.answer(second.id, { decision: "deny", reason: "still in use" }, admin("ada"));
      expect((await denied).content).toContain("still in use");
      expect([here.ran.length, there.ran.length]).toEqual([1, 0]);
    });
  });

  it("takes the first of answers that are given on both nodes at once", async () => {
    await withNodes(async (here, there) => {
      for (let round = 0; round < 5; round++) {
        const call = here.registry.execute("wipe", { path: "a" });
        const { id } = await there.question();
        const answers = await Promise.all([
          there.inbox.answer(id, { decision: "deny" }, admin("there")),
          here.inbox.answer(id, { decision: "allow" }, admin("here")),
        ]);
        expect(answers.map((answered) => answered?.outcome).sort()).toEqual(["accepted", "decided"]);
        const isAllowed = (await here.inbox.get(id))?.state === "allowed";
        expect((await call).error?.code).toBe(isAllowed ? undefined : "approval_denied");
      }
    });
  });

  it("validates edited arguments, keeps what was masked, and lets no secret into the store", async () => {
    await withNodes(async (here, there) => {
      const call = here.registry.execute("wipe", { path: "of sesame-street", password: "hunter22" });
      const { id, input } = await there.question();
      expect(input).toEqual({ path: "of [redacted]", password: "[redacted]" });
      const edit = (edited: Record<string, unknown>) =>
        there.inbox.answer(id, { decision: "allow", arguments: edited }, admin("ada"));
      await expect(edit({ path: 7 })).rejects.toThrow("do not fit the schema");
      await expect(edit({ path: "b", password: "other" })).rejects.toThrow("hold a secret");
      await edit({ path: "b", password: "[redacted]" });
      expect((await call).content).toContain('wiped {"path":"b","password":"hunter22"}');
      expect(JSON.stringify(await there.inbox.get(id))).not.toContain("hunter22");
    });
  });

  it("becomes a rule that counts at once where the call waits", async () => {
    await withNodes(async (here, there) => {
      const context = { sessionID: "s", caller: "bob" };
      const call = here.registry.execute("wipe", { path: "a" }, context);
      const { id } = await there.question();
      const rule = { tool: "wipe", sessionID: "s" };
      await there.inbox.answer(id, { decision: "allow", rule }, admin("ada"));
      await call;
      expect(here.inbox.rules).toMatchObject([
        { tool: "wipe", sessionID: "s", caller: "bob", createdBy: "ada" },
      ]);
      expect((await here.registry.execute("wipe", { path: "b" }, context)).content).toContain("wiped");
    });
  });

  it("cannot be answered when its node would learn of it too late", async () => {
    await withNodes(async (here, there) => {
      const call = here.registry.execute("wipe", { path: "a" });
      const { id } = await there.question();
      expect(await there.inbox.answer(id, { decision: "allow" }, admin("ada"))).toMatchObject({
        outcome: "elsewhere",
        approval: { state: "pending" },
      });
      expect(await here.inbox.answer(id, { decision: "allow" }, admin("ada"))).toMatchObject({
        outcome: "accepted",
      });
      expect((await call).content).toContain("wiped");
    }, 4_500);
  });

  it("is made anew, once, when its node ended before it took the answer", async () => {
    await using workspace = await TemporaryWorkspace.create();
    const directory = join(workspace.directory, ".toolrack");
    await using there = await Node.open(directory);
    await using third = await Node.open(directory);
    const here = await Node.open(directory);
    const call = here.registry.execute("wipe", { path: "a" }, { callId: "c" });
    const { id } = await there.question();
    here.inbox.stop();
    expect((await call).error?.code).toBe("approval_denied");
    await there.inbox.answer(id, { decision: "allow", arguments: { path: "b" } }, admin("ada"));
    await there.inbox.refresh();
    expect(there.ran).toEqual([]);
    await here[Symbol.asyncDispose]();
    await Promise.all([there.inbox.refresh(), third.inbox.refresh()]);
    await expect.poll(() => [...there.ran, ...third.ran]).toHaveLength(1);
    await Promise.all([there.inbox.refresh(), third.inbox.refresh()]);
    expect([...there.ran, ...third.ran]).toEqual([{ input: { path: "b" }, callId: "c-resumed" }]);
  });

  it("is not made anew when the call was cancelled before it took the answer", async () => {
    await withNodes(async (here, there) => {
      const call = here.registry.execute("wipe", { path: "a" }, { callId: "c" });
      const { id } = await there.question();
      await there.inbox.answer(id, { decision: "allow" }, admin("ada"));
      here.registry.cancel("c", "changed my mind");
      expect((await call).error?.code).toBe("cancelled");
      await here[Symbol.asyncDispose]();
      await there.inbox.refresh();
      await there.inbox.close();
      expect(there.ran).toEqual([]);
    });
  });
});
