import { resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { forbiddenImports, importCycles, readHouse, roomOf, type SourceFile } from "./house.ts";

const house = readHouse(resolve(import.meta.dirname, ".."));

describe("the rooms of the server", () => {
  it("import only rooms below them, and only through their doors", () => {
    expect(forbiddenImports(house)).toEqual([]);
  });

  it("are seen through when one goes up, sideways, past a door or gives away another room's things", () => {
    const broken = (path: string, target: string, text = "") => {
      const file: SourceFile = {
        path: `packages/server/src/${path}`,
        text,
        room: roomOf(`packages/server/src/${path}`),
        imports: [{ target: `packages/server/src/${target}`, line: 1 }],
      };
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
  });

  it("have no new files that import each other in a circle", () => {
    const rooms = importCycles(house).filter((group) => new Set(group.map(roomOf)).size > 1);
    expect(rooms.filter((group) => group.some((path) => path.startsWith("packages/server")))).toEqual([]);
  });
});
