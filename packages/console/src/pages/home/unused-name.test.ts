import { expect, it } from "vitest";
import { unusedName } from "./unused-name.ts";

it("gives a name of its own to each", () => {
  expect(unusedName("Cursor", [])).toBe("Cursor");
  expect(unusedName("Cursor", ["Codex", "Cursor"])).toBe("Cursor 2");
  expect(unusedName("Cursor", ["Cursor", "Cursor 3", "Cursor 2"])).toBe("Cursor 4");
});
