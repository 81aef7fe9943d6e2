import { mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { isInside } from "../access/index.ts";
import { confinePath, showPath } from "./paths.ts";
import { openTestWorkspace, type TestWorkspace } from "./testing/tool-rig.ts";

let inside: TestWorkspace;
let elsewhere: TestWorkspace;

beforeEach(async () => {
  inside = await openTestWorkspace({
    "src/index.ts": "1",
    "src/other.ts": "2",
    "..x/legal.txt": "3",
    "...": "4",
  });
  elsewhere = await openTestWorkspace({ "secret.txt": "secret" });
});

afterEach(async () => {
  await inside[Symbol.asyncDispose]();
  await elsewhere[Symbol.asyncDispose]();
});

describe("a path inside the roots", () => {
  it("resolves against the workspace, not against the process", async () => {
    expect(await confinePath(inside.workspace, "src/index.ts")).toBe(inside.path("src/index.ts"));
    expect(await confinePath(inside.workspace, ".")).toBe(inside.directory);
  });

  it("may be absolute", async () => {
    const path = inside.path("src/index.ts");
    expect(await confinePath(inside.workspace, path)).toBe(path);
  });

  it("may go up and come back", async () => {
    expect(await confinePath(inside.workspace, "src/../src/./index.ts")).toBe(inside.path("src/index.ts"));
  });

  it("may have names that begin with two dots", async () => {
    expect(await confinePath(inside.workspace, "..x/legal.txt")).toBe(inside.path("..x/legal.txt"));
    expect(await confinePath(inside.workspace, "...")).toBe(inside.path("..."));
    expect(await confinePath(inside.workspace, "..new")).toBe(inside.path("..new"));
  });

  it("may not exist yet, folders included", async () => {
    expect(await confinePath(inside.workspace, "a/b/c.txt")).toBe(inside.path("a/b/c.txt"));
  });

  it("may lie in any of several roots", async () => {
    const workspace = { ...inside.workspace, roots: [inside.directory, elsewhere.directory] };
    expect(await confinePath(workspace, elsewhere.path("secret.txt"))).toBe(elsewhere.path("secret.txt"));
  });

  it("is found through a root that is itself a link", async () => {
    await symlink(inside.directory, elsewhere.path("workspace"));
    const directory = elsewhere.path("workspace");
    const workspace = { directory, roots: [directory] };
    expect(await confinePath(workspace, "src/index.ts")).toBe(inside.path("src/index.ts"));
    expect(await confinePath(workspace, ".", { keepLink: true })).toBe(inside.directory);
    expect(await showPath(workspace, inside.path("src/index.ts"))).toBe("src/index.ts");
  });

  it("may pass through links that stay inside", async () => {
    await symlink("src", inside.path("alias"));
    expect(await confinePath(inside.workspace, "alias/index.ts")).toBe(inside.path("src/index.ts"));
    expect(await confinePath(inside.workspace, "alias/new.ts")).toBe(inside.path("src/new.ts"));
  });
});

describe("a path outside the roots", () => {
  it("is refused, and the refusal names the allowed roots", async () => {
    const refusal = confinePath(inside.workspace, "../other.txt");
    await expect(refusal).rejects.toThrow("lies outside the folders that tools may touch");
    await expect(refusal).rejects.toThrow(inside.directory);
    await expect(confinePath(inside.workspace, elsewhere.path("secret.txt"))).rejects.toThrow("lies outside");
    await expect(confinePath(inside.workspace, "/etc/passwd")).rejects.toThrow("lies outside");
  });

  it("is refused when it only shares the beginning of a root's name", async () => {
    await expect(confinePath(inside.workspace, `${inside.directory}-sibling/x`)).rejects.toThrow(
      "lies outside",
    );
  });

  it.each([
    ["a link to a file", "link", (target: string) => join(target, "secret.txt"), "link"],
    ["a file behind a link to a folder", "link", (target: string) => target, "link/secret.txt"],
    ["a new file behind a link to a folder", "link", (target: string) => target, "link/new/file.txt"],
    ["a link to a file that does not exist yet", "link", (target: string) => join(target, "new.txt"), "link"],
    [
      "a link to a folder that does not exist yet",
      "link",
      (target: string) => join(target, "no/no"),
      "link/x",
    ],
  ])("is refused when reached by %s", async (_, name, target, path) => {
    await symlink(target(elsewhere.directory), inside.path(name));
    await expect(confinePath(inside.workspace, path)).rejects.toThrow("leads through a link out of");
  });

  it("is refused when reached by a relative link or by links in a row", async () => {
    await symlink("../../../../../../../etc/passwd", inside.path("up"));
    await symlink("up", inside.path("first"));
    await expect(confinePath(inside.workspace, "first")).rejects.toThrow("leads through a link out of");
  });

  it("is refused when a dangling link climbs out of a linked folder", async () => {
    await mkdir(inside.path("deep/er"), { recursive: true });
    await symlink("deep/er", inside.path("short"));
    await symlink("../../../nowhere", inside.path("deep/er/out"));
    await expect(confinePath(inside.workspace, "short/out")).rejects.toThrow("leads through a link out of");
  });
});

describe("the server's own folder", () => {
  it.each([".toolrack", ".toolrack/token", "src/../.toolrack/new.txt", "alias/token"])(
    "is closed: %s",
    async (path) => {
      await mkdir(inside.path(".toolrack"));
      await writeFile(inside.path(".toolrack/token"), "secret");
      await symlink(".toolrack", inside.path("alias"));
      await expect(confinePath(inside.workspace, path)).rejects.toThrow("belongs to the server itself");
      await expect(confinePath(inside.workspace, path, { keepLink: true })).rejects.toThrow(
        "belongs to the server",
      );
    },
  );

  it("is closed before it exists, and also where it is a link", async () => {
    await expect(confinePath(inside.workspace, ".toolrack/token")).rejects.toThrow(
      "belongs to the server itself",
    );
    await mkdir(inside.path("state"));
    await symlink("state", inside.path(".toolrack"));
    await expect(confinePath(inside.workspace, "state/token")).rejects.toThrow(
      "belongs to the server itself",
    );
    await expect(confinePath(inside.workspace, ".toolrack", { keepLink: true })).rejects.toThrow(
      "belongs to",
    );
  });

  it("closes no other folder of that name", async () => {
    expect(await confinePath(inside.workspace, "src/.toolrack/x")).toBe(inside.path("src/.toolrack/x"));
    expect(await confinePath(inside.workspace, ".toolrackrc")).toBe(inside.path(".toolrackrc"));
  });
});

describe("a path that is no path", () => {
  it.each(["", "   "])("is refused when empty: %j", async (path) => {
    await expect(confinePath(inside.workspace, path)).rejects.toThrow("The path is empty");
  });

  it("is refused when it holds a NUL byte", async () => {
    await expect(confinePath(inside.workspace, "a\0b")).rejects.toThrow("NUL byte");
  });

  it("is refused when its links lead in a circle", async () => {
    await symlink("b", inside.path("a"));
    await symlink("a", inside.path("b"));
    await expect(confinePath(inside.workspace, "a/x")).rejects.toThrow("in a circle");
    expect(await confinePath(inside.workspace, "a", { keepLink: true })).toBe(inside.path("a"));
  });

  it("is refused when a name is too long", async () => {
    await expect(confinePath(inside.workspace, "x".repeat(5000))).rejects.toThrow("too long");
  });
});

describe("keepLink", () => {
  it("names the link itself, wherever it points", async () => {
    await symlink(elsewhere.path("secret.txt"), inside.path("link"));
    expect(await confinePath(inside.workspace, "link", { keepLink: true })).toBe(inside.path("link"));
  });

  it("still resolves the folders on the way", async () => {
    await symlink(elsewhere.directory, inside.path("link"));
    await expect(confinePath(inside.workspace, "link/secret.txt", { keepLink: true })).rejects.toThrow(
      "leads through",
    );
  });
});

describe("mustExist", () => {
  const missing = (path: string) => confinePath(inside.workspace, path, { mustExist: true });

  it("passes what exists", async () => {
    expect(await missing("src/index.ts")).toBe(inside.path("src/index.ts"));
  });

  it("names the nearest file of the same folder", async () => {
    await expect(missing("src/indx.ts")).rejects.toThrow(
      'There is no "src/indx.ts". Nearest in src/: index.ts.',
    );
  });

  it("names the nearest folder when a folder on the way is missing", async () => {
    await expect(missing("scr/index.ts")).rejects.toThrow(
      'no "scr" in the workspace. Nearest in the workspace: src.',
    );
  });

  it("says when a file is used as a folder", async () => {
    await expect(missing("src/index.ts/x")).rejects.toThrow("is a file, not a folder");
  });

  it("begins every sentence with a capital letter", async () => {
    await expect(missing("zzzzzzzz.txt")).rejects.toThrow(/^There is no "zzzzzzzz.txt"\. The workspace has /);
  });

  it("says how many entries there are when none is near", async () => {
    await expect(missing("src/zebra-crossing.md")).rejects.toThrow("src/ has 2 entries");
    await mkdir(inside.path("void"));
    await expect(missing("void/zebra.md")).rejects.toThrow("void/ is empty");
  });

  it("never tells what is outside", async () => {
    await writeFile(elsewhere.path("hint.txt"), "");
    const refusal = await missing(elsewhere.path("hint.tx")).catch((error: Error) => error.message);
    expect(refusal).toContain("lies outside");
    expect(refusal).not.toContain("hint.txt");
  });
});

describe("isInside", () => {
  it("is true of the folder itself and of what is in it", () => {
    expect(isInside("/a/b", "/a/b")).toBe(true);
    expect(isInside("/a/b", "/a/b/..c")).toBe(true);
    expect(isInside("/a/b", "/a")).toBe(false);
    expect(isInside("/a/b", "/a/bc")).toBe(false);
    expect(isInside("/", "/a")).toBe(true);
  });
});
