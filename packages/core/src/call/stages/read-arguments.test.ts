import { expect, it } from "vitest";
import { Tool, ToolRegistry } from "../../index.ts";
import type { ToolCallRecord } from "../events.ts";

const secret = "correct-horse-battery";

/** The record of a call with these arguments. */
async function recordOf(name: string, args: unknown): Promise<ToolCallRecord> {
  const registry = new ToolRegistry();
  const schema = {
    type: "object",
    properties: { user: { type: "string" }, password: { type: "string" } },
    required: ["user"],
  };
  const execute = async () => "in";
  const tool = { description: "Takes a secret.", parameters: schema, execute };
  registry.register(Tool.define({ ...tool, name: "login" }));
  registry.register(Tool.define({ ...tool, name: "guarded", metadata: { permissions: ["vault:open"] } }));
  registry.register(Tool.define({ ...tool, name: "dangerous", metadata: { dangerous: true } }));
  registry.register({ ...Tool.define({ ...tool, name: "retired" }), disabled: true });
  const records: ToolCallRecord[] = [];
  registry.subscribe((event) => {
    if (event.type === "record") records.push(event.record);
  });
  await registry.execute(name, args);
  return records[0]!;
}

it.each(["login", "guarded", "dangerous", "retired", "missing"])(
  "records a call of %s the same, whether its arguments came as an object or as text",
  async (name) => {
    const args = { user: name === "login" ? 5 : "Ann", password: secret };
    const [given, written] = [await recordOf(name, args), await recordOf(name, JSON.stringify(args))];
    expect(given.error).toBeDefined();
    expect(written.error).toEqual(given.error);
    expect(written.parameters).toEqual({ user: args.user, password: "[redacted]" });
    expect([written.parameters, written.parametersHash]).toEqual([given.parameters, given.parametersHash]);
    expect(JSON.stringify(written)).not.toContain(secret);
  },
);

it("leaves text that is no object as it came", async () => {
  expect((await recordOf("login", "log Ann in")).parameters).toEqual({ raw: "log Ann in" });
  expect((await recordOf("login", "[1]")).parameters).toEqual({ raw: "[1]" });
});
