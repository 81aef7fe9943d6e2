import { describe, expect, it } from "vitest";
import { Tool, ToolRegistry } from "../../index.ts";
import { covers } from "./admission.ts";

describe("permit", () => {
  const guarded = Tool.define({
    name: "guarded",
    parameters: {},
    metadata: { permissions: ["file:read", "net"] },
    execute: async () => "in",
  });

  it("lets a caller in who holds everything, and names what another lacks", async () => {
    const registry = new ToolRegistry();
    registry.register(guarded);
    expect((await registry.execute("guarded", {}, { permissions: ["file:*", "net"] })).content).toBe("in");
    const refused = await registry.execute("guarded", {}, { permissions: ["file:read"] });
    expect(refused.error).toMatchObject({ name: "PermissionDeniedError", details: { missing: ["net"] } });
    expect(refused.content).toContain('"net"');
  });

  it("a caller who does not say holds what the registry grants, by default nothing", async () => {
    const closed = new ToolRegistry();
    closed.register(guarded);
    expect((await closed.execute("guarded", {})).error?.code).toBe("permission_denied");
    const open = new ToolRegistry({ permissions: ["*"] });
    open.register(guarded);
    expect((await open.execute("guarded", {})).content).toBe("in");
  });

  it.each([
    ["file:read", "file:read", true],
    ["file:read", "file:readx", false],
    ["*", "anything", true],
    ["file:*", "file:", true],
    ["file:*", "files:read", false],
    ["*:read", "file:read", true],
    ["a*b*c", "a-x-b-y-c", true],
    ["a*b*c", "a-c", false],
    ["ab*ba", "aba", false],
    ["", "file", false],
  ])("%s covers %s: %s", (held, permission, expected) => {
    expect(covers(held, permission)).toBe(expected);
  });
});
