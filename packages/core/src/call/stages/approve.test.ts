import { describe, expect, it, vi } from "vitest";
import { z } from "zod";
import { type ApprovalPolicy, type RackEvent, Tool, ToolRegistry } from "../../index.ts";

function rack(approval?: ApprovalPolicy) {
  const registry = new ToolRegistry(approval === undefined ? {} : { approval });
  registry.register(
    Tool.define({
      name: "delete_file",
      parameters: z.object({ path: z.string() }),
      metadata: { dangerous: true, confirm: "Delete it?" },
      execute: async ({ input }) => `deleted ${input.path}`,
    }),
  );
  registry.register(
    Tool.define({ name: "read_file", parameters: z.object({}), execute: async () => "text" }),
  );
  return registry;
}

describe("approve", () => {
  it("denies a dangerous tool with a clear message when nobody can be asked", async () => {
    const result = await rack().execute("delete_file", { path: "a" });
    expect(result.error?.code).toBe("approval_denied");
    expect(result.content).toMatch(/needs a person's consent.*approval policy/);
  });

  it("asks for dangerous tools only", async () => {
    const ask = vi.fn(async () => ({ decision: "allow" }) as const);
    const registry = rack({ ask });
    expect((await registry.execute("read_file", {})).content).toBe("text");
    expect(ask).not.toHaveBeenCalled();
    expect((await registry.execute("delete_file", { path: "a" })).content).toBe("deleted a");
    expect(ask).toHaveBeenCalledOnce();
  });

  it("records how long the call waited for the person, and only for one that waited", async () => {
    const registry = rack({ ask: async () => ({ decision: "deny" }) });
    await registry.execute("delete_file", { path: "a" });
    await registry.execute("read_file", {});
    const [asked, free] = registry.getCallHistory(2);
    expect(asked?.flags?.waited).toBeGreaterThan(0);
    expect(asked?.flags?.waited).toBeLessThanOrEqual(asked!.duration);
    expect(free?.flags).toBeUndefined();
  });

  it("lets a policy decide without asking anybody", async () => {
    const registry = rack({ decide: ({ toolName }) => (toolName === "read_file" ? "deny" : "allow") });
    expect((await registry.execute("delete_file", { path: "a" })).content).toBe("deleted a");
    expect((await registry.execute("read_file", {})).error?.code).toBe("approval_denied");
  });

  it("shows the policy the tool that the call runs, also where another has its name by now", async () => {
    const shown: unknown[] = [];
    const registry = rack({
      decide(_, { metadata }) {
        shown.push(metadata.version);
        return "allow";
      },
    });
    const versioned = (version: number) =>
      Tool.define({
        name: "versioned",
        parameters: z.object({}),
        metadata: { version },
        execute: async () => "text",
      });
    registry.register(versioned(1));
    const snapshot = registry.snapshot();
    registry.apply({ remove: ["versioned"], put: [versioned(2)] });
    await registry.execute("versioned", {}, { snapshot });
    await registry.execute("versioned", {});
    expect(shown).toEqual([1, 2]);
  });

  it("runs with the arguments that the person changed, and says so", async () => {
    const registry = rack({ ask: async () => ({ decision: "allow", arguments: { path: "b" } }) });
    const result = await registry.execute("delete_file", { path: "a" });
    expect(result.content).toContain("deleted b");
    expect(result.content).toContain('A person changed the arguments before it ran: {"path":"b"}');
    expect(result.metadata).toMatchObject({ editedArguments: { path: "b" } });
    expect(registry.getCallHistory(1)[0]).toMatchObject({
      parameters: { path: "b" },
      flags: { edited: true },
    });
  });

  it("validates edited arguments like any others", async () => {
    const registry = rack({ ask: async () => ({ decision: "allow", arguments: { path: 7 } }) });
    expect((await registry.execute("delete_file", { path: "a" })).error?.code).toBe("invalid_arguments");
  });

  it("passes the reason of a denial on to the model", async () => {
    const registry = rack({ ask: async () => ({ decision: "deny", reason: "that is the database" }) });
    const result = await registry.execute("delete_file", { path: "a" });
    expect(result.content).toContain("that is the database");
    expect(result.error?.details).toMatchObject({ reason: "that is the database" });
  });

  it("takes no answer in time for a no, and tells the one who was asked", async () => {
    let given: AbortSignal | undefined;
    const registry = rack({
      timeout: 20,
      ask: (_, signal) => {
        given = signal;
        return new Promise(() => {});
      },
    });
    const result = await registry.execute("delete_file", { path: "a" });
    expect(result.content).toMatch(/Nobody answered within/);
    expect(given?.aborted).toBe(true);
  });

  it("waits as long as the policy allows, however long that is", async () => {
    for (const timeout of [Number.POSITIVE_INFINITY, 30 * 86_400_000]) {
      const registry = rack({
        timeout,
        ask: () => new Promise((resolve) => setTimeout(() => resolve({ decision: "allow" }), 20)),
      });
      expect((await registry.execute("delete_file", { path: "a" })).content).toBe("deleted a");
    }
  });

  it("a policy that never decides counts as nobody answering", async () => {
    const registry = rack({ timeout: 20, decide: () => new Promise(() => {}) });
    expect((await registry.execute("read_file", {})).content).toMatch(/Nobody answered/);
  });

  it("tells listeners that a question is closed when nobody answered it", async () => {
    const registry = rack({ timeout: 20, ask: () => new Promise(() => {}) });
    const seen: RackEvent[] = [];
    registry.subscribe((event) => event.type === "approval" && seen.push(event));
    await registry.execute("delete_file", { path: "a" });
    expect(seen).toMatchObject([{ request: {} }, { decision: { decision: "deny" } }]);
  });

  it("edited arguments are shown without secrets, at any size, and whatever they are", async () => {
    const registry = new ToolRegistry({
      approval: {
        decide: () => ({
          decision: "allow",
          arguments: { n: 5, password: "hunter2", text: "x".repeat(200_000) },
        }),
      },
    });
    registry.register(
      Tool.define({
        name: "t",
        parameters: z.object({ n: z.coerce.bigint(), password: z.string(), text: z.string() }),
        execute: async ({ input }) => `ran ${input.n}`,
      }),
    );
    const result = await registry.execute("t", { n: 1, password: "p", text: "" });
    expect(result.content).toMatch(/^ran 5/);
    expect(result.content.length).toBeLessThan(2_000);
    expect(JSON.stringify(result)).not.toContain("hunter2");
  });

  it("a person who thinks does not cost the tool its time", async () => {
    const registry = rack({
      ask: () => new Promise((resolve) => setTimeout(() => resolve({ decision: "allow" }), 120)),
    });
    const asking = (name: string, metadata: Tool.Metadata, execute: (context: Tool.Context) => unknown) =>
      registry.register(Tool.define({ name, parameters: {}, metadata, execute: execute as never }));
    asking("asks", { timeout: 60, idleTimeout: 40 }, async ({ ask }) => {
      await ask("Go on?");
      return "went on";
    });
    asking("outer", { timeout: 60 }, async ({ call }) => (await call("asks")).content);
    expect((await registry.execute("outer", {})).content).toBe("went on");
    asking("then_hangs", { timeout: 60 }, async ({ ask }) => {
      await ask("Go on?");
      return new Promise(() => {});
    });
    expect((await registry.execute("then_hangs", {})).error?.code).toBe("timed_out");
  });

  it("takes a failure or nonsense for a no", async () => {
    const failing = rack({ ask: () => Promise.reject(new Error("console closed")) });
    expect((await failing.execute("delete_file", { path: "a" })).content).toContain("console closed");
    const nonsense = rack({ ask: async () => "sure" as never });
    expect((await nonsense.execute("delete_file", { path: "a" })).error?.code).toBe("approval_denied");
    const policy = rack({ decide: () => undefined as never });
    expect((await policy.execute("read_file", {})).error?.code).toBe("approval_denied");
  });

  it("takes for a no what a policy throws and nobody can print", async () => {
    const registry = rack({
      ask: () => {
        throw Object.create(null);
      },
    });
    const { error } = await registry.execute("delete_file", { path: "a" });
    expect(error).toMatchObject({
      code: "approval_denied",
      message: expect.stringContaining("asking for approval failed: something that cannot be printed"),
    });
  });

  it("stops waiting when the call is cancelled", async () => {
    const registry = rack({ ask: () => new Promise(() => {}) });
    const call = registry.execute("delete_file", { path: "a" }, { callId: "c" });
    await vi.waitFor(() => expect(registry.getState("c")?.status).toBe("pending"));
    registry.cancel("c");
    expect((await call).error?.code).toBe("cancelled");
  });

  it("reports the question and the answer to listeners", async () => {
    const registry = rack({ ask: async () => ({ decision: "allow" }) });
    const seen: RackEvent[] = [];
    registry.subscribe((event) => seen.push(event));
    await registry.execute("delete_file", { path: "a" }, { sessionID: "s", caller: "cli" });
    const approvals = seen.filter((event) => event.type === "approval");
    expect(approvals).toMatchObject([
      { request: { toolName: "delete_file", message: "Delete it?", sessionID: "s", caller: "cli" } },
      { decision: { decision: "allow" } },
    ]);
  });

  it("ctx.ask puts a question in the middle of a run", async () => {
    const answers = ["allow", "deny"] as const;
    let asked = 0;
    const registry = rack({ ask: async () => ({ decision: answers[asked++]!, reason: "no more" }) });
    registry.register(
      Tool.define({
        name: "careful",
        parameters: z.object({}),
        execute: async ({ ask }) => {
          await ask("Go on?");
          await ask({ message: "And further?", details: { step: 2 } });
          return "went on";
        },
      }),
    );
    const result = await registry.execute("careful", {});
    expect(asked).toBe(2);
    expect(result.error).toMatchObject({ code: "approval_denied", details: { reason: "no more" } });
  });
});
