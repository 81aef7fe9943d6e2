import { isCanonicalName } from "@toolrack/core/internal";
import { describe, expect, it } from "vitest";
import type { ClaimedName } from "../../../store/mcp-servers.ts";
import { RackNames } from "./rack-names.ts";

const logger = { debug() {}, info() {}, warn() {}, error() {} };

/** On what earlier ones have left. */
function open(kept: ClaimedName[] = []): Promise<RackNames> {
  const store = {
    names: async () => [...kept],
    countNames: async () => kept.length,
    async claimNames(server: string, names: readonly string[]) {
      kept.push(...names.map((name) => ({ name, server })));
    },
  };
  return RackNames.open(store, logger);
}

describe("names", () => {
  it("have the server's key and the tool's own name, and always fit", async () => {
    const names = await open();
    expect(names.nameOf("files", "read_file")).toBe("mcp_files_read_file");
    const long = names.nameOf("a".repeat(40), `search.${"b".repeat(100)}`);
    expect(isCanonicalName(long)).toBe(true);
    expect(long).not.toBe(names.nameOf("a".repeat(40), `search.${"b".repeat(101)}`));
    expect(names.nameOf("My Server", "echo")).toMatch(/^mcp_My_Server_echo_[0-9a-z]+$/);
  });

  it("have the prefix that the entry chooses, but never names that are the rack's own", async () => {
    const names = await open();
    names.setPrefix("files", "");
    names.setPrefix("git", "vcs-");
    expect([names.nameOf("files", "read_file"), names.nameOf("git", "log")]).toEqual([
      "read_file",
      "vcs-log",
    ]);
    const own = ["toolrack_call", "Internal_fs_read", "builtin_x", "mcp_git_log"];
    expect(own.map((name) => names.nameOf("files", name))).toEqual(own.map((name) => `mcp_files_${name}`));
    names.setPrefix("files", undefined);
    expect(names.nameOf("files", "read_file")).toBe("mcp_files_read_file");
  });

  it("without a prefix that two servers want belong to neither", async () => {
    const names = await open();
    for (const server of ["one", "two"]) names.setPrefix(server, "");
    expect([names.claim("one", ["echo"]), names.claim("two", ["echo"])]).toEqual([false, true]);
    const both = [names.nameOf("one", "echo"), names.nameOf("two", "echo")];
    expect(new Set([...both, "echo"]).size).toBe(3);
  });

  it("leave room for the prefix of a client, and do not double their own", async () => {
    const names = await open();
    expect(names.nameOf("mcp-server-git", "log")).toBe("mcp_server-git_log");
    expect(names.nameOf("MCP_mcp.files", "read")).toBe("mcp_files_read");
    expect([names.nameOf("mcp", "log"), names.nameOf("mcpo", "log")]).toEqual([
      "mcp_mcp_log",
      "mcp_mcpo_log",
    ]);
    const long = names.nameOf("chrome-devtools", "performance_analyze_insight_of_a_trace");
    expect(`mcp__toolrack__${long}`).toHaveLength(64);
    expect(long).toMatch(/^mcp_chrome-.*trace$/);
    names.claim("mcp-git", ["log"]);
    names.claim("git", ["log"]);
    const both = [names.nameOf("mcp-git", "log"), names.nameOf("git", "log")];
    for (const name of both) expect(name).toMatch(/^mcp_git_log_[0-9a-z]{8}$/);
    expect(new Set(both).size).toBe(2);
  });

  it("that were longer before keep what was said of them", async () => {
    const names = await open();
    names.claim("mcp-server-git", ["log"]);
    names.nameOf("mcp-server-git", "log");
    expect(names.successorsOf("mcp_mcp-server-git_log")).toEqual(["mcp_server-git_log"]);
    expect(names.formerNameOf("mcp_server-git_log")).toBe("mcp_mcp-server-git_log");
    expect(names.successorsOf("mcp_server-git_log")).toEqual([]);
  });

  it("that never met stay as they are", async () => {
    const names = await open();
    expect(names.claim("a", ["b_c", "d"])).toBe(false);
    expect(names.claim("a_b", ["x"])).toBe(false);
    expect([names.nameOf("a", "b_c"), names.nameOf("a", "d"), names.nameOf("a_b", "x")]).toEqual([
      "mcp_a_b_c",
      "mcp_a_d",
      "mcp_a_b_x",
    ]);
  });

  it("that two servers want belong to neither, whichever came first", async () => {
    const [one, other] = [await open(), await open()];
    expect([one.claim("a", ["b_c"]), one.claim("a_b", ["c"])]).toEqual([false, true]);
    expect([other.claim("a_b", ["c"]), other.claim("a", ["b_c"])]).toEqual([false, true]);
    const both = [one.nameOf("a", "b_c"), one.nameOf("a_b", "c")];
    expect([other.nameOf("a", "b_c"), other.nameOf("a_b", "c")]).toEqual(both);
    expect(new Set([...both, "mcp_a_b_c"]).size).toBe(3);
    for (const name of both) expect(name).toMatch(/^mcp_a_b_c_[0-9a-z]{8}$/);
    expect(
      one
        .successorsOf("MCP_a_b_c")
        .map((name) => name.toLowerCase())
        .sort(),
    ).toEqual(both.toSorted());
  });

  it("that differ by case only are one", async () => {
    const names = await open();
    names.claim("Files", ["read"]);
    names.claim("files", ["read"]);
    const both = [names.nameOf("Files", "read"), names.nameOf("files", "read")];
    expect(new Set([...both, "mcp_files_read"].map((name) => name.toLowerCase())).size).toBe(3);
  });

  it("of the greatest length are told apart, and still fit", async () => {
    const names = await open();
    const rest = "c".repeat(40);
    names.claim("a", [`b_${rest}`]);
    names.claim("a_b", [rest]);
    const both = [names.nameOf("a", `b_${rest}`), names.nameOf("a_b", rest)];
    expect(both[0]).not.toBe(both[1]);
    expect(both.every(isCanonicalName)).toBe(true);
  });

  describe("of one server that differ by case only", () => {
    const list = (names: RackNames, ...tools: string[]) => {
      names.claim("files", tools);
      names.noteSpellings("files", [tools]);
    };
    const both = (names: RackNames) => [names.nameOf("files", "delete"), names.nameOf("files", "Delete")];

    it("belong to nobody, in whatever order they are listed or appear", async () => {
      const racks = [await open(), await open(), await open()] as const;
      list(racks[0], "delete", "Delete", "read");
      list(racks[1], "Delete", "delete", "read");
      list(racks[2], "delete", "read");
      expect(racks[2].nameOf("files", "delete")).toBe("mcp_files_delete");
      list(racks[2], "Delete", "read", "delete");
      for (const names of racks) expect(both(names)).toEqual(both(racks[0]));
      const folded = [...both(racks[0]), "mcp_files_delete"].map((name) => name.toLowerCase());
      expect(new Set(folded).size).toBe(3);
      expect(both(racks[0]).every(isCanonicalName)).toBe(true);
      expect(racks[0].nameOf("files", "read")).toBe("mcp_files_read");
    });

    it("stay apart when one is gone, in other processes and after a restart", async () => {
      const kept: ClaimedName[] = [];
      const names = await open(kept);
      const other = await open(kept);
      list(names, "delete", "Delete");
      const told = both(names);
      list(names, "delete");
      await names.settled();
      expect([await other.refresh(), await other.refresh()]).toEqual([true, false]);
      for (const one of [names, other, await open(kept)]) expect(both(one)).toEqual(told);
    });

    it("are told apart still when another server wants the name, and no name of before means another", async () => {
      const names = await open();
      names.claim("a_b", ["C"]);
      names.noteSpellings("a_b", [["C"]]);
      names.claim("a", ["b_c"]);
      const before = [names.nameOf("a_b", "C"), names.nameOf("a", "b_c")];
      names.claim("a_b", ["C", "c"]);
      names.noteSpellings("a_b", [["C", "c"]]);
      const after = [names.nameOf("a_b", "C"), names.nameOf("a_b", "c"), names.nameOf("a", "b_c")];
      expect(after[2]).toBe(before[1]);
      expect(new Set([...before, ...after].map((name) => name.toLowerCase())).size).toBe(4);
      expect(names.successorsOf("mcp_a_b_c").toSorted()).toEqual(after.toSorted());
    });

    it("are known by what they were: what was decided about the plain name concerns both", async () => {
      const names = await open();
      list(names, "delete", "Delete");
      expect(names.successorsOf("MCP_files_delete")).toEqual(both(names));
      for (const name of both(names)) expect(names.formerNameOf(name)).toBe("mcp_files_delete");
    });

    it("do not meet in two lists, nor when one took the place of the other", async () => {
      const names = await open();
      names.claim("files", ["delete", "Delete"]);
      names.noteSpellings("files", [["delete"], ["Delete"]]);
      expect(both(names)).toEqual(["mcp_files_delete", "mcp_files_Delete"]);
      list(names, "Delete");
      expect(both(names)).toEqual(["mcp_files_delete", "mcp_files_Delete"]);
    });

    it("are told apart also where names are not remembered any more", async () => {
      const names = await open();
      names.claim(
        "files",
        Array.from({ length: 5_000 }, (_, index) => `t${index}`),
      );
      list(names, "delete", "Delete");
      expect(new Set(both(names).map((name) => name.toLowerCase())).size).toBe(2);
      expect(names.successorsOf("mcp_files_delete")).toEqual(both(names));
    });
  });

  it("are remembered, also of a server that is gone", async () => {
    const kept: ClaimedName[] = [];
    const names = await open(kept);
    names.claim("a", ["b_c"]);
    await names.settled();
    const later = await open(kept);
    later.claim("a_b", ["c"]);
    expect(later.nameOf("a_b", "c")).toMatch(/^mcp_a_b_c_/);
  });

  it("that were given up are known by what they have become", async () => {
    const names = await open();
    const rest = "c".repeat(40);
    names.claim("a_b", ["c", rest, "alone"]);
    expect(names.formerNameOf("mcp_a_b_c")).toBeUndefined();
    names.claim("a", ["b_c", `b_${rest}`]);
    for (const [server, name] of [
      ["a_b", "c"],
      ["a", "b_c"],
    ] as const) {
      const now = names.nameOf(server, name);
      expect([names.formerNameOf(now), names.formerNameOf(now.toUpperCase())]).toEqual([
        "mcp_a_b_c",
        "mcp_a_b_c",
      ]);
    }
    expect(names.formerNameOf(names.nameOf("a_b", rest))).toBe(`mcp_a_b_${rest}`);
    expect(names.formerNameOf(names.nameOf("a_b", "alone"))).toBeUndefined();
  });

  it("without end are not remembered: what comes after so many is told apart from the first", async () => {
    const kept: ClaimedName[] = [];
    const names = await open(kept);
    names.claim("other", ["x_mine"]);
    for (let round = 0; round < 4; round++) {
      names.claim(
        "other_x",
        Array.from({ length: 2_000 }, (_, index) => `t${round}_${index}`),
      );
    }
    await names.settled();
    expect(kept.length).toBe(5_001);
    expect(names.nameOf("other_x", "t0_0")).toBe("mcp_other_x_t0_0");
    for (const one of [names, await open(kept)]) {
      expect(one.claim("other_x", ["t0_0", "late", "mine"])).toBe(false);
      const late = one.nameOf("other_x", "late");
      expect(late).toMatch(/^mcp_other_x_late_[0-9a-z]{8}$/);
      // What is denied by the name that it would have had is denied, and off, all the same.
      expect([one.formerNameOf(late), one.successorsOf("mcp_other_x_late")]).toEqual([
        "mcp_other_x_late",
        [late],
      ]);
      // And it takes no name from another server any more.
      expect(one.nameOf("other", "x_mine")).toBe("mcp_other_x_mine");
      expect(one.nameOf("other_x", "mine")).toMatch(/^mcp_other_x_mine_/);
    }
  });

  it("are only read again when there are more of them", async () => {
    const kept: ClaimedName[] = [{ name: "mcp_a_b_c", server: "a" }];
    let reads = 0;
    const store = {
      names: async () => {
        reads++;
        return [...kept];
      },
      countNames: async () => kept.length,
      claimNames: async () => {},
    };
    const names = await RackNames.open(store, logger);
    expect([await names.refresh(), reads]).toEqual([false, 1]);
    kept.push({ name: "mcp_a_b_c", server: "a_b" });
    expect([await names.refresh(), reads]).toEqual([true, 2]);
  });

  it("of another server are no names of what has not been claimed", async () => {
    const names = await open();
    names.claim("a_b", ["c"]);
    expect(names.nameOf("a", "b_c")).not.toBe("mcp_a_b_c");
    expect(names.nameOf("a_b", "c")).toBe("mcp_a_b_c");
  });
});
