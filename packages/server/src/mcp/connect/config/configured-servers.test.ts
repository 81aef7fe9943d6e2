import { describe, expect, it } from "vitest";
import type { StoredMcpServer } from "../../../store/mcp-servers.ts";
import { type WantedServer, wantedServers } from "./configured-servers.ts";

const logger = { debug() {}, info() {}, warn() {}, error() {} };

/** What is wanted of the server `odd` when its entry is not valid any more. */
async function afterBreaking(given: object, place: "file" | "store", last: WantedServer["place"]) {
  const row: StoredMcpServer = { key: "odd", entry: given, createdAt: 1, updatedAt: 1 };
  const rows = new Map(place === "store" ? [["odd", row]] : []);
  const entries = new Map(place === "file" ? [["odd", { given, reason: "It is not valid." }]] : []);
  const file = { entries, problems: new Map() };
  const before: WantedServer = { key: "odd", entry: { command: "good" }, place: last, isEnabled: true };
  const wanted = await wantedServers(rows, file, {
    path: "mcp.json",
    logger,
    last: () => before,
    heldBack: () => undefined,
  });
  return wanted.get("odd");
}

describe.each(["file", "store"] as const)("an entry of the %s that is not valid any more", (place) => {
  it("goes on as it last was", async () => {
    expect(await afterBreaking({ command: 5 }, place, place)).toMatchObject({
      entry: { command: "good" },
      isEnabled: true,
      problem: expect.stringContaining("goes on"),
    });
  });

  it.each([{ disabled: true }, { enabled: false }])("is switched off when it says %j", async (wish) => {
    expect(await afterBreaking({ command: 5, ...wish }, place, place)).toMatchObject({ isEnabled: false });
  });

  it("does not go on as the one of the other place", async () => {
    const other = place === "file" ? "store" : "file";
    const wanted = await afterBreaking({ command: 5 }, place, other);
    expect(wanted).toMatchObject({ entry: {}, invalid: { given: { command: 5 } } });
    expect(wanted?.problem).toBeUndefined();
  });
});
