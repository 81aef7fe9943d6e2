import { expect, test } from "vitest";
import { type Surface, walk } from "./walk.ts";

/** The most files and functions of ours that one warm call may run. The goal of the first three is 45 and 150. */
const limits: Record<Surface, { readonly files: number; readonly functions: number }> = {
  http: { files: 45, functions: 150 },
  stdio: { files: 45, functions: 150 },
  mcp: { files: 45, functions: 150 },
  sandbox: { files: 49, functions: 193 },
};

test.each(Object.entries(limits))(
  "a call over %s runs through few files and functions",
  async (name, limit) => {
    const { way } = await walk(name as Surface); // A key of the limits.
    const shown = way.files.map(
      ({ path, functions }) => `${path}: ${functions.map((one) => one.name).join(", ")}`,
    );
    expect(way.files.length, shown.join("\n")).toBeLessThanOrEqual(limit.files);
    expect(way.functions, shown.join("\n")).toBeLessThanOrEqual(limit.functions);
  },
);
