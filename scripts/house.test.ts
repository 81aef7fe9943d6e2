import { resolve } from "node:path";
import { describe, expect, it } from "vitest";
import {
  castsWithoutReason,
  forbiddenImports,
  importCycles,
  readHouse,
  roomOf,
  type SourceFile,
} from "./house.ts";

const house = readHouse(resolve(import.meta.dirname, ".."));

describe("the rooms of the server and of the console", () => {
  it("import only rooms below them, and only through their doors", () => {
    expect(forbiddenImports(house)).toEqual([]);
  });

  it("are seen through when one goes up, sideways, past a door or gives away another room's things", () => {
    const broken = (path: string, target: string, text = "", name = "server") => {
      const inside = (file: string) => `packages/${name}/src/${file}`;
      const imports = [{ target: inside(target), line: 1 }];
      const file: SourceFile = { path: inside(path), text, room: roomOf(inside(path)), imports };
      return forbiddenImports([file])[0]?.split(": ").at(-1);
    };
    expect(broken("calls/recorder.ts", "http/index.ts")).toBe("upward");
    expect(broken("http/router.ts", "mcp/serve/index.ts")).toBe("sideways");
    expect(broken("mcp/serve/tools.ts", "mcp/connect/upstream.ts")).toBe("past the door");
    expect(broken("calls/index.ts", "store/index.ts", 'export { Store } from "../store/index.ts";')).toBe(
      "a door gives away another room's things",
    );
    expect(broken("skills/script-tool.ts", "sandbox/index.ts")).toBeUndefined();
    expect(broken("calls/recorder.ts", "store/index.ts")).toBeUndefined();
    const inConsole = (path: string, target: string) => broken(path, target, "", "console");
    expect(inConsole("api/calls.ts", "ui/index.ts")).toBe("upward");
    expect(inConsole("pages/chat/ChatPage.vue", "pages/tools/ToolsPage.vue")).toBe("sideways");
    expect(inConsole("pages/chat/ChatPage.vue", "calls/ApprovalCard.vue")).toBe("past the door");
    expect(inConsole("shell/navigation.ts", "pages/tools/rack.ts")).toBe("past the door");
    expect(inConsole("pages/chat/ChatPage.vue", "calls/index.ts")).toBeUndefined();
    expect(inConsole("shell/navigation.ts", "pages/tools/ToolsPage.vue")).toBeUndefined();
  });

  it("have no files that import each other in a circle, in the whole house", () => {
    expect(importCycles(house)).toEqual([]);
    const circle = ["a", "b", "c"].map((name, at, names): SourceFile => {
      const pathOf = (file: string | undefined) => `packages/core/src/call/${file ?? "a"}.ts`;
      const imports = [{ target: pathOf(names[at + 1]), line: 1 }];
      return { path: pathOf(name), text: "", room: "core/call", imports };
    });
    expect(importCycles(circle).map((group) => group.length)).toEqual([3]);
  });

  it("say why each cast is right", () => {
    expect(castsWithoutReason(house)).toEqual([]);
    const cast = (text: string) => castsWithoutReason([{ path: "a.ts", text, room: "core", imports: [] }]);
    expect(cast("const a = b as Tool;")).toEqual(["a.ts:1"]);
    expect(cast("const a = b as Tool; // The loader has checked it.")).toEqual([]);
  });
});
