import { execFileSync } from "node:child_process";
import { mkdir, symlink, writeFile } from "node:fs/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openTestWorkspace, type TestWorkspace } from "../testing/tool-rig.ts";
import search from "./search.ts";
import { runRipgrep } from "./support/ripgrep.ts";

interface SearchResult {
  readonly matches: readonly {
    readonly path: string;
    readonly line: number;
    readonly column: number;
    readonly text: string;
  }[];
  readonly files: readonly string[];
  readonly truncated: boolean;
}

let space: TestWorkspace;

beforeEach(async () => {
  space = await openTestWorkspace({
    "src/one.ts": "const needle = 1;\nother();\nuse(needle);\n",
    "src/two.test.ts": "needle()\n",
    "docs/guide.md": "A Needle and 漢字 needle.\n",
    ".github/ci.yml": "needle: yes\n",
    "node_modules/pkg/index.js": "needle\n",
    ".git/config": "needle\n",
    ".toolrack/token": "needle\n",
    "dist/out.js": "needle\n",
    ".gitignore": "dist/\n",
  });
});

afterEach(() => space[Symbol.asyncDispose]());

const found = (args: object) => space.structured<SearchResult>(search, args);

describe("searching", () => {
  it("finds matches with path, line and column, in order of path", async () => {
    expect(await found({ query: "needle", path: "src" })).toEqual({
      matches: [
        { path: "src/one.ts", line: 1, column: 7, text: "const needle = 1;" },
        { path: "src/one.ts", line: 3, column: 5, text: "use(needle);" },
        { path: "src/two.test.ts", line: 1, column: 1, text: "needle()" },
      ],
      files: ["src/one.ts", "src/two.test.ts"],
      truncated: false,
    });
  });

  it("leaves out what is ignored, and finds what is merely hidden", async () => {
    expect((await found({ query: "needle" })).files).toEqual([
      ".github/ci.yml",
      "docs/guide.md",
      "src/one.ts",
      "src/two.test.ts",
    ]);
  });

  it("searches an ignored folder when it is named", async () => {
    expect((await found({ query: "needle", path: "node_modules/pkg" })).files).toEqual([
      "node_modules/pkg/index.js",
    ]);
    expect((await found({ query: "needle", path: "dist" })).files).toEqual(["dist/out.js"]);
  });

  it("searches one file", async () => {
    expect((await found({ query: "needle", path: "src/one.ts" })).files).toEqual(["src/one.ts"]);
  });

  it("counts columns in characters", async () => {
    const { matches } = await found({ query: "字 (needle)", path: "docs" });
    expect(matches[0]).toMatchObject({ column: 15 });
  });

  it("takes a regular expression, or plain text on request", async () => {
    await writeFile(space.path("src/three.ts"), "a.b(c)\naxb\n");
    expect((await found({ query: "a.b", path: "src/three.ts" })).matches).toHaveLength(2);
    expect((await found({ query: "a.b(", literal: true, path: "src/three.ts" })).matches).toHaveLength(1);
    expect((await found({ query: "--files", literal: true })).matches).toEqual([]);
  });

  it("minds case unless told not to", async () => {
    expect((await found({ query: "NEEDLE" })).matches).toEqual([]);
    expect((await found({ query: "NEEDLE", ignoreCase: true, path: "docs" })).matches).toHaveLength(1);
  });

  it("keeps to the globs", async () => {
    expect((await found({ query: "needle", glob: ["*.ts", "!*.test.ts"] })).files).toEqual(["src/one.ts"]);
    expect((await found({ query: "needle", glob: ["./src/**"] })).files).toEqual([
      "src/one.ts",
      "src/two.test.ts",
    ]);
    expect((await found({ query: "needle", glob: ["one.*"], path: "src" })).files).toEqual(["src/one.ts"]);
    expect((await found({ query: "needle", glob: [".toolrack/**", "**/token"] })).files).toEqual([]);
  });

  it("names only the files on request", async () => {
    expect(await found({ query: "needle", filesOnly: true, path: "src" })).toEqual({
      files: ["src/one.ts", "src/two.test.ts"],
      truncated: false,
    });
    expect(await space.text(search, { query: "needle", filesOnly: true, path: "src" })).toBe(
      "src/one.ts\nsrc/two.test.ts",
    );
  });
});

describe("what a model reads", () => {
  it("groups matches by file", async () => {
    expect(await space.text(search, { query: "needle", path: "src" })).toBe(
      "src/one.ts\n1: const needle = 1;\n3: use(needle);\n\nsrc/two.test.ts\n1: needle()",
    );
  });

  it("shows context and marks gaps", async () => {
    await writeFile(space.path("src/gaps.txt"), "x\nhit\ny\nz\nw\nhit\nv\n");
    expect(await space.text(search, { query: "hit", path: "src/gaps.txt", context: 1 })).toBe(
      "src/gaps.txt\n1- x\n2: hit\n3- y\n--\n5- w\n6: hit\n7- v",
    );
    expect((await found({ query: "hit", path: "src/gaps.txt", context: 1 })).matches[1]).toEqual({
      path: "src/gaps.txt",
      line: 6,
      column: 1,
      text: "hit",
      before: ["w"],
      after: ["v"],
    });
  });

  it("says that nothing was found, as an answer and not an error", async () => {
    expect(await space.text(search, { query: "haystack" })).toBe(
      "Nothing in the workspace matches /haystack/.",
    );
    expect(await space.text(search, { query: "haystack", path: "src", glob: ["*.ts"], literal: true })).toBe(
      'Nothing in src matches "haystack", in files that fit *.ts.',
    );
  });

  it("clips a long line to the part around the match", async () => {
    await writeFile(space.path("long.txt"), `${"x".repeat(100_000)}target${"y".repeat(100_000)}\r\n`);
    const { matches } = await found({ query: "target" });
    expect(matches[0]?.text).toHaveLength(402);
    expect(matches[0]?.text).toContain("xtargety");
    expect(matches[0]?.column).toBe(100_001);
  });

  it("shows text that is not UTF-8 as well as it can", async () => {
    await writeFile(space.path("latin.txt"), Buffer.from([0x63, 0x61, 0x66, 0xe9, 0x20, 0x68, 0x69, 0x74]));
    expect((await found({ query: "hit" })).matches[0]).toMatchObject({
      path: "latin.txt",
      text: "caf\uFFFD hit",
    });
  });
});

describe("the limit", () => {
  it("stops the search and says that there is more", async () => {
    await writeFile(space.path("many.txt"), "hit\n".repeat(300));
    const result = await found({ query: "hit" });
    expect(result.matches).toHaveLength(100);
    expect(result.truncated).toBe(true);
    expect(await space.text(search, { query: "hit", limit: 2 })).toContain(
      "[Stopped at 2 matches; there are more.",
    );
  });

  it("is no cut when it fits exactly", async () => {
    expect(await found({ query: "needle", path: "src", limit: 3 })).toMatchObject({ truncated: false });
  });

  it("counts files with filesOnly", async () => {
    expect(await found({ query: "needle", limit: 1, filesOnly: true })).toMatchObject({
      files: [".github/ci.yml"],
      truncated: true,
    });
  });
});

describe("a search that cannot be", () => {
  it("tells ripgrep's reason for a bad expression or glob", async () => {
    expect(await space.failure(search, { query: "(" })).toContain("unclosed group");
    expect(await space.failure(search, { query: "x", glob: ["["] })).toContain("unclosed character class");
  });

  it("is refused outside the workspace and where there is nothing", async () => {
    expect(await space.failure(search, { query: "x", path: "/etc" })).toContain("lies outside");
    expect(await space.failure(search, { query: "x", path: "scr" })).toContain(
      "Nearest in the workspace: src",
    );
    expect(await space.failure(search, { query: "" })).toContain("query");
  });

  it("does not follow links out of the workspace", async () => {
    await symlink("/etc", space.path("etc"));
    await symlink("/etc/passwd", space.path("passwd"));
    expect((await found({ query: "root" })).matches).toEqual([]);
  });
});

it("refuses a pipe, and ends ripgrep when a search is cancelled", async () => {
  await mkdir(space.path("slow"));
  execFileSync("mkfifo", [space.path("slow/pipe")]);
  expect(await space.failure(search, { query: "x", path: "slow/pipe" })).toContain(
    "neither a file nor a folder",
  );

  // Nobody writes to the pipe: this search waits for ever.
  const controller = new AbortController();
  const running = runRipgrep(["--regexp=x", "./pipe"], space.path("slow"), controller.signal, () => true);
  const outcome = running.catch((error: Error) => error.name);
  await expect.poll(() => ripgreps()).toHaveLength(1);
  controller.abort();
  expect(await outcome).toBe("AbortError");
  expect(ripgreps()).toEqual([]);
});

function ripgreps(): string[] {
  const all = execFileSync("ps", ["-eo", "args"], { encoding: "utf8" }).split("\n");
  return all.filter((command) => command.includes("--json --no-config") && command.includes("./pipe"));
}
