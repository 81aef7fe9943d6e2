import { describe, expect, it, vi } from "vitest";
import { type CallOptions, type RackEvent, Tool, ToolRegistry } from "../../index.ts";

const ran: string[] = [];
const wipe = (version = "first", metadata: Tool.Metadata = {}) =>
  Tool.define({
    name: "wipe",
    parameters: {},
    metadata: { dangerous: true, ...metadata },
    execute: async () => {
      ran.push(version);
      return `wiped by the ${version}`;
    },
  });

/** A rack on which a call of `wipe` waits for a person. */
async function waiting(options: CallOptions = {}, name = "wipe") {
  const asked = Promise.withResolvers<void>();
  const answer = Promise.withResolvers<{ decision: "allow" }>();
  const logged: unknown[][] = [];
  const error = (...values: unknown[]) => void logged.push(values);
  const registry = new ToolRegistry({
    logger: { debug() {}, info() {}, warn() {}, error },
    approval: {
      ask: (_, signal) => {
        withdrawn.push(signal);
        asked.resolve();
        return answer.promise;
      },
    },
  });
  const withdrawn: AbortSignal[] = [];
  const events: RackEvent[] = [];
  registry.subscribe((event) => events.push(event));
  registry.register(wipe());
  registry.register(
    Tool.define({
      name: "outer",
      parameters: {},
      metadata: { timeout: 60, calls: ["wipe"] },
      execute: async ({ call }) => (await call("wipe")).content,
    }),
  );
  ran.length = 0;
  const call = registry.execute(name, {}, options);
  await asked.promise;
  return {
    registry,
    call,
    events,
    logged,
    question: withdrawn[0]!,
    agree: () => answer.resolve({ decision: "allow" }),
  };
}

describe("a call that a person is asked about", () => {
  it.each<[string, (registry: ToolRegistry) => void, string, RegExp]>([
    ["taken down", (registry) => registry.unregister("wipe"), "tool_not_found", /taken down while/],
    ["switched off", (registry) => registry.disable("wipe"), "tool_disabled", /switched off/],
    [
      "replaced by one with that alias",
      (registry) =>
        void registry.apply({
          remove: ["wipe"],
          put: [Tool.define({ name: "other", aliases: ["wipe"], parameters: {}, execute: async () => "" })],
        }),
      "tool_not_found",
      /taken down while/,
    ],
    [
      "changed so that the caller lacks what it needs",
      (registry) => registry.update("wipe", { metadata: { dangerous: true, permissions: ["root"] } }),
      "permission_denied",
      /"root"/,
    ],
  ])("ends, and its question with it, when its tool is %s", async (_, change, code, message) => {
    const { registry, call, question, events } = await waiting();
    change(registry);
    const result = await call;
    expect(result.error?.code).toBe(code);
    expect(result.content).toMatch(message);
    expect(question.aborted).toBe(true);
    expect(ran).toEqual([]);
    expect(registry.getCallHistory(1)[0]).toMatchObject({ toolName: "wipe", status: "error" });
    const refused = { decision: { decision: "deny", reason: expect.stringMatching(message) } };
    await vi.waitFor(() => {
      const told = events.filter((event) => event.type === "approval").at(-1);
      expect(told).toMatchObject(refused);
    });
  });

  it("runs the version that was agreed to when its tool was changed", async () => {
    const { registry, call, agree } = await waiting();
    registry.apply({ remove: ["wipe"], put: [wipe("second")] });
    agree();
    expect((await call).content).toBe("wiped by the first");
    expect((await registry.execute("wipe")).content).toBe("wiped by the second");
  });

  it("does not run when it is no longer within its caller's reach", async () => {
    let isAllowed = true;
    const { call, agree } = await waiting({ allow: () => isAllowed });
    isAllowed = false;
    agree();
    expect((await call).error?.code).toBe("permission_denied");
    expect(ran).toEqual([]);
  });

  it("does not run when its caller is gone, also for a tool that vouches for what it calls", async () => {
    for (const name of ["wipe", "outer"]) {
      const asked: string[] = [];
      const withdrawn = async (callId: string) => {
        asked.push(callId);
        return "Its token was taken back.";
      };
      const { call, agree } = await waiting({ callId: "first", withdrawn }, name);
      agree();
      const { error, content } = await call;
      expect(content).toContain('"wipe" was agreed to, but did not run. Its token was taken back.');
      if (name === "wipe") expect(error?.code).toBe("permission_denied");
      expect(asked).toEqual(["first"]);
      expect(ran).toEqual([]);
    }
  });

  it("does not run when nobody can say whether its caller is still there", async () => {
    const withdrawn = () => Promise.reject(new Error("no database"));
    const { call, agree, logged } = await waiting({ withdrawn });
    agree();
    const { error, content } = await call;
    expect(error?.code).toBe("permission_denied");
    expect(content).toContain("could not be looked up. The log of the server says why");
    expect(content).not.toContain("no database");
    expect(logged).toEqual([expect.arrayContaining([new Error("no database")])]);
    expect(ran).toEqual([]);
  });

  it("costs the tool that called it none of its time", async () => {
    const { call, agree } = await waiting({}, "outer");
    setTimeout(agree, 150);
    expect((await call).content).toBe("wiped by the first");
  });

  it("is the only one whose caller is looked at again", async () => {
    const registry = new ToolRegistry({ approval: { decide: () => "allow" } });
    registry.register(wipe());
    const withdrawn = () => Promise.reject(new Error("was asked"));
    expect((await registry.execute("wipe", {}, { withdrawn })).content).toBe("wiped by the first");
  });
});
