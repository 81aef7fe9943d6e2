import { mkdir, symlink, utimes, writeFile } from "node:fs/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openTestWorkspace, type TestWorkspace } from "../testing/tool-rig.ts";
import list from "./list.ts";

interface Listing {
  readonly path: string;
  readonly entries: readonly { readonly name: string; readonly path: string; readonly type: string }[];
  readonly truncated: boolean;
}

let space: TestWorkspace;

beforeEach(async () => {
  space = await openTestWorkspace({
    "b.txt": "bb",
    "a.txt": "a",
    ".env": "X=1",
    "src/main.ts": "1",
    "src/main.test.ts": "2",
    "src/deep/er/view.tsx": "3",
    "node_modules/pkg/index.js": "4",
    ".git/HEAD": "5",
  });
});

afterEach(() => space[Symbol.asyncDispose]());

async function paths(args: object): Promise<string[]> {
  return (await space.structured<Listing>(list, args)).entries.map(({ path }) => path);
}

describe("listing a folder", () => {
  it("with a pattern that stands for millions of names takes no longer than with any other", async () => {
    const long = `${"a".repeat(200)}.txt`;
    await writeFile(space.path(long), "");
    expect(await paths({ pattern: "{a,b}".repeat(24) })).toEqual([]);
    expect(await paths({ pattern: `${"{a,*}".repeat(100)}.txt` })).toContain(long);
    expect(await paths({ pattern: `${"*a".repeat(60)}*b` })).toEqual([]);
    expect(await paths({ ignore: [`${"*a".repeat(60)}*b`, `${"**/".repeat(60)}b`] })).toContain(long);
    await writeFile(space.path(".gitignore"), `${"*a".repeat(60)}*b\n${"a*".repeat(60)}.txt\n`);
    expect(await paths({})).not.toContain(long);
  });

  it("shows the workspace by default, folders first, then by name", async () => {
    expect(await paths({})).toEqual(["src", ".env", "a.txt", "b.txt"]);
  });

  it("tells name, path, type, size and time of change", async () => {
    await utimes(space.path("src/main.ts"), 0, 1_700_000_000);
    await symlink("../a.txt", space.path("src/link"));
    const { path, entries } = await space.structured<Listing>(list, { path: "src" });
    expect(path).toBe("src");
    expect(entries).toContainEqual({
      name: "main.ts",
      path: "src/main.ts",
      type: "file",
      size: 1,
      modified: "2023-11-14T22:13:20.000Z",
    });
    expect(entries).toContainEqual(
      expect.objectContaining({ name: "link", type: "symlink", target: "../a.txt" }),
    );
    expect(entries[0]).toMatchObject({ name: "deep", type: "directory" });
  });

  it("shows a model one line per entry", async () => {
    await utimes(space.path("a.txt"), 0, 1_700_000_000);
    const text = await space.text(list, {});
    expect(text).toContain("The workspace: 4 entries\nsrc/");
    expect(text).toContain("a.txt  1 byte  2023-11-14 22:13");
  });

  it("says when there is nothing", async () => {
    await mkdir(space.path("void"));
    expect(await space.text(list, { path: "void" })).toContain("void/ has nothing to show");
    expect(await space.text(list, { path: "void", all: true })).toBe("void/ is empty.");
  });

  it("refuses a file and points to the reader", async () => {
    expect(await space.failure(list, { path: "a.txt" })).toContain("internal_file_read");
  });

  it("names the nearest folder when there is none", async () => {
    expect(await space.failure(list, { path: "scr" })).toContain("Nearest in the workspace: src");
  });
});

describe("listing a tree", () => {
  it("goes into the folders and shows them indented", async () => {
    expect(await space.text(list, { path: "src", recursive: true })).toBe(
      [
        "src/: 5 entries",
        "deep/",
        "  er/",
        "    view.tsx  1 byte",
        "main.test.ts  1 byte",
        "main.ts  1 byte",
      ].join("\n"),
    );
  });

  it("stops at a depth", async () => {
    expect(await paths({ path: "src", recursive: true, depth: 2 })).toEqual([
      "src/deep",
      "src/main.test.ts",
      "src/main.ts",
      "src/deep/er",
    ]);
  });

  it("shows links without following them, also those that lead in a circle", async () => {
    await symlink("..", space.path("src/up"));
    expect(await paths({ path: "src", recursive: true })).toContain("src/up");
    expect(await space.text(list, { path: "src", recursive: true })).toContain("up -> ..");
  });

  it("stops at the limit, having seen every folder's top first, and says so", async () => {
    await mkdir(space.path("big"));
    await Promise.all(Array.from({ length: 30 }, (_, index) => writeFile(space.path("big", `${index}`), "")));
    const listing = await space.structured<Listing>(list, { recursive: true, limit: 6 });
    expect(listing.truncated).toBe(true);
    expect(listing.entries.map(({ path }) => path)).toEqual([
      "big",
      "src",
      ".env",
      "a.txt",
      "b.txt",
      "big/0",
    ]);
    expect(await space.text(list, { recursive: true, limit: 6 })).toContain(
      "[Stopped at 6 entries; there are more.",
    );
  });

  it("does not claim a cut when the limit fits exactly", async () => {
    expect(await space.structured(list, { limit: 4 })).toMatchObject({ truncated: false });
  });
});

describe("what is left out", () => {
  it("follows .gitignore files of every level", async () => {
    await writeFile(space.path(".gitignore"), "*.test.ts\n/a.txt\ndeep/\n");
    await writeFile(space.path("src/.gitignore"), "!main.test.ts\nmain.ts\n");
    expect(await paths({ recursive: true })).toEqual([
      "src",
      ".env",
      ".gitignore",
      "b.txt",
      "src/.gitignore",
      "src/main.test.ts",
    ]);
    expect(await paths({ path: "src" })).toEqual(["src/.gitignore", "src/main.test.ts"]);
  });

  it("is shown with all", async () => {
    await writeFile(space.path(".gitignore"), "a.txt\n");
    expect(await paths({ all: true })).toEqual([
      ".git",
      "node_modules",
      "src",
      ".env",
      ".gitignore",
      "a.txt",
      "b.txt",
    ]);
  });

  it("is shown when the folder is named", async () => {
    await writeFile(space.path(".gitignore"), "node_modules/\n");
    expect(await paths({ path: "node_modules", recursive: true })).toEqual([
      "node_modules/pkg",
      "node_modules/pkg/index.js",
    ]);
    expect(await paths({ path: "node_modules/pkg" })).toEqual(["node_modules/pkg/index.js"]);
  });

  it("can be more", async () => {
    expect(await paths({ recursive: true, ignore: ["*.txt", "src/deep"] })).toEqual([
      "src",
      ".env",
      "src/main.test.ts",
      "src/main.ts",
    ]);
  });
});

describe("a pattern", () => {
  it("without a slash looks at names", async () => {
    expect(await paths({ pattern: "*.{ts,tsx}", recursive: true })).toEqual([
      "src/main.test.ts",
      "src/main.ts",
      "src/deep/er/view.tsx",
    ]);
    expect(await paths({ pattern: "*" })).toEqual(["src", ".env", "a.txt", "b.txt"]);
  });

  it("with a slash looks at paths and goes into folders", async () => {
    expect(await paths({ pattern: "src/**/*.tsx" })).toEqual(["src/deep/er/view.tsx"]);
    expect(await paths({ path: "src", pattern: "./deep/**/*.tsx" })).toEqual(["src/deep/er/view.tsx"]);
  });

  it("shows a model the paths, or that nothing fits", async () => {
    expect(await space.text(list, { pattern: "**/*.tsx" })).toBe(
      "The workspace: 1 entry that fit **/*.tsx\nsrc/deep/er/view.tsx  1 byte",
    );
    expect(await space.text(list, { pattern: "*.rs" })).toBe("Nothing in the workspace fits *.rs.");
  });
});
