import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { canonicalName, isCanonicalName, nearestNames } from "./name.ts";

describe("canonicalName", () => {
  it("keeps a name that every provider accepts", () => {
    for (const name of ["read_file", "internal_web_search", "A-1", "x".repeat(64)]) {
      expect(canonicalName(name)).toBe(name);
    }
  });

  it("replaces illegal characters and never lets two names become one", () => {
    const names = ["a.b", "a_b", "a b", "a/b", "a__b", "a.b."];
    const mapped = names.map((name) => canonicalName(name));
    expect(new Set(mapped).size).toBe(names.length);
    expect(mapped[0]).toMatch(/^a_b_[a-z0-9]{12}$/);
  });

  it("keeps the head and the tail of a long name readable", () => {
    const name = `mcp_${"very_long_server_key_".repeat(4)}search_documents`;
    const short = canonicalName(name);
    expect(short).toHaveLength(64);
    expect(short.startsWith("mcp_very_long_server")).toBe(true);
    expect(short.endsWith("_search_documents")).toBe(true);
    expect(canonicalName(`${name}2`)).not.toBe(short);
  });

  it("names what has no legal character at all", () => {
    expect(canonicalName("网页搜索")).toMatch(/^tool_[a-z0-9]{12}$/);
    expect(canonicalName("")).toMatch(/^tool_[a-z0-9]{12}$/);
    expect(canonicalName("网页搜索")).not.toBe(canonicalName("网页抓取"));
    expect(canonicalName("SearXNG Search/网页搜索")).toMatch(/^SearXNG_Search_[a-z0-9]{12}$/);
  });

  it("never begins with a hyphen, which would be an option on a command line", () => {
    expect(canonicalName("天气-查询")).toMatch(/^tool_[a-z0-9]{12}$/);
    expect(canonicalName("天气-now")).toMatch(/^now_[a-z0-9]{12}$/);
    expect(canonicalName("-x")).toMatch(/^x_[a-z0-9]{12}$/);
    expect(canonicalName(`-${"x".repeat(80)}`)).toMatch(/^x/);
  });

  it("gives the same name on every machine", () => {
    expect(canonicalName("网页搜索")).toBe(canonicalName("\u7f51\u9875\u641c\u7d22"));
    expect([canonicalName("a.b"), canonicalName("网页搜索")]).toMatchInlineSnapshot(`
      [
        "a_b_d18d8de8c79b",
        "tool_bc2d2dd45804",
      ]
    `);
  });

  it("is always canonical, within the limit and stable, for any text", () => {
    fc.assert(
      fc.property(
        fc.string({ unit: "binary", maxLength: 200 }),
        fc.integer({ min: 1, max: 64 }),
        (name, limit) => {
          const mapped = canonicalName(name, limit);
          expect(isCanonicalName(mapped)).toBe(true);
          expect(mapped.length).toBeLessThanOrEqual(limit);
          expect(canonicalName(mapped, limit)).toBe(mapped);
        },
      ),
    );
  });
});

describe("nearestNames", () => {
  const rack = [
    "read_file",
    "write_file",
    "internal_web_search",
    "internal_web_fetch",
    "mcp_github_create_issue",
    "time",
  ];

  it("finds a misspelt name first", () => {
    expect(nearestNames("raed_file", rack)[0]).toBe("read_file");
    expect(nearestNames("internal_web_serch", rack)[0]).toBe("internal_web_search");
    expect(nearestNames("READ_FILE", rack)[0]).toBe("read_file");
  });

  it("finds what the wanted name has become, before others that look like it", () => {
    const names = ["delete_1b2c3d4e", "delete_9a8b7c6d", "deletes", "delet", "elete", "Deleted"];
    expect(nearestNames("Delete", names, 2)).toEqual(["delete_1b2c3d4e", "delete_9a8b7c6d"]);
    expect(nearestNames("delete", ["delete_many_files", "delete_one"])[0]).toBe("delete_one");
  });

  it("finds names by the words they share", () => {
    expect(nearestNames("web_search", rack)[0]).toBe("internal_web_search");
    expect(nearestNames("createIssue", rack)).toEqual(["mcp_github_create_issue"]);
    expect(nearestNames("搜索", ["网页搜索", "read_file"])).toEqual(["网页搜索"]);
  });

  it("suggests nothing when nothing is near", () => {
    expect(nearestNames("quantum_entangle", rack)).toEqual([]);
    expect(nearestNames("", rack)).toEqual([]);
    expect(nearestNames("read_file", rack, 0)).toEqual([]);
  });

  it("answers with at most the limit, best first, in any order of candidates", () => {
    const forward = nearestNames("web", rack, 1);
    expect(forward).toHaveLength(1);
    expect(nearestNames("web", [...rack].reverse(), 1)).toEqual(forward);
  });

  it("agrees with a plain edit distance on close names", () => {
    const word = fc.string({ unit: fc.constantFrom("a", "b", "c", "_"), minLength: 6, maxLength: 14 });
    fc.assert(
      fc.property(word, word, (a, b) => {
        const distance = levenshtein(a, b);
        const allowed = Math.min(4, Math.floor(Math.max(a.length, b.length) / 3));
        if (distance <= allowed) expect(nearestNames(a, [b])).toEqual([b]);
      }),
    );
  });

  it("finds the nearest of many look-alikes, looking at each once", () => {
    let looks = 0;
    function* many() {
      for (let index = 0; index < 100_000; index++) {
        looks++;
        yield `mcp_server_with_a_long_key_search_documents_${index}`;
      }
    }
    expect(nearestNames("mcp_server_with_a_long_key_search_documents_4711x", many())).toEqual([
      "mcp_server_with_a_long_key_search_documents_4711",
      "mcp_server_with_a_long_key_search_documents_47110",
      "mcp_server_with_a_long_key_search_documents_47111",
    ]);
    expect(looks).toBe(100_000);
  });

  it("ranks as if every candidate were compared in full", () => {
    const word = fc.constantFrom("read", "write", "file", "page", "fiel", "raed", "x1", "x2");
    const name = fc.array(word, { minLength: 1, maxLength: 4 }).map((words) => words.join("_"));
    fc.assert(
      fc.property(name, fc.uniqueArray(name, { maxLength: 12 }), (wanted, names) => {
        const all = nearestNames(wanted, names, names.length + 1);
        expect(nearestNames(wanted, names, 3)).toEqual(all.slice(0, 3));
      }),
    );
  });
});

function levenshtein(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)));
    }
    row = next;
  }
  return row[b.length]!;
}
