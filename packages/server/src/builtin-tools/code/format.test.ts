import { execFileSync } from "node:child_process";
import { mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openTestWorkspace, type TestWorkspace } from "../testing/tool-rig.ts";
import format from "./format.ts";
import { runProgram } from "./support/formatters.ts";

const biome = join(
  dirname(createRequire(import.meta.url).resolve("@biomejs/biome/package.json")),
  "bin/biome",
);

let space: TestWorkspace;

beforeEach(async () => {
  space = await openTestWorkspace({
    "src/ugly.ts": "const a   = 1\n",
    "src/fine.ts": "const b = 1;\n",
    "-odd.ts": "const c   = 1\n",
  });
});

afterEach(() => space[Symbol.asyncDispose]());

const contentOf = (path: string) => readFile(space.path(path), "utf8");

async function useBiome(): Promise<void> {
  await mkdir(space.path("node_modules/.bin"), { recursive: true });
  await symlink(biome, space.path("node_modules/.bin/biome"));
  await writeFile(space.path("biome.json"), '{ "formatter": { "indentStyle": "space" } }\n');
}

describe("the project's formatter", () => {
  beforeEach(useBiome);

  it("asks a person first: it runs a program of the workspace", () => {
    expect(format.metadata).toMatchObject({ dangerous: true, confirm: expect.any(String) });
  });

  it("formats a file and says what changed", async () => {
    expect(await space.text(format, { path: "src/ugly.ts" })).toBe("Biome changed 1 file:\nsrc/ugly.ts");
    expect(await contentOf("src/ugly.ts")).toBe("const a = 1;\n");
    expect(await space.text(format, { path: "src/ugly.ts" })).toBe(
      "Biome found nothing to change in src/ugly.ts.",
    );
  });

  it("formats a folder and names only the files that changed", async () => {
    expect(await space.structured(format, { path: "src" })).toEqual({
      path: "src",
      formatter: "biome",
      checked: false,
      files: ["src/ugly.ts"],
    });
  });

  it("with check names the files and writes nothing", async () => {
    expect(await space.text(format, { path: "src", check: true })).toBe(
      "Biome would change 1 file:\nsrc/ugly.ts",
    );
    expect(await contentOf("src/ugly.ts")).toBe("const a   = 1\n");
    expect(await space.text(format, { path: "src/fine.ts", check: true })).toBe(
      "Biome: src/fine.ts is formatted.",
    );
  });

  it("is not confused by a name that looks like an option", async () => {
    expect(await space.structured(format, { path: "-odd.ts" })).toMatchObject({ files: ["-odd.ts"] });
  });

  it("tells the formatter's reason when the code is broken, and what was changed anyway", async () => {
    await writeFile(space.path("src/zz.ts"), "const (\n");
    for (const check of [true, false]) {
      const message = await space.failure(format, { path: "src", check });
      expect(message).toContain("Biome could not format src (exit code 1)");
      expect(message).toContain("found '('");
      if (!check) expect(message).toContain("Changed before that: src/ugly.ts.");
    }
  });

  it("tells when the formatter does not know the file", async () => {
    await writeFile(space.path("notes.what"), "x");
    expect(await space.failure(format, { path: "notes.what" })).toContain("No files were processed");
    expect(await space.failure(format, { path: "notes.what", check: true })).toContain(
      "No files were processed",
    );
  });

  it("is the nearest one configured", async () => {
    await mkdir(space.path("packages/inner"), { recursive: true });
    await writeFile(space.path("packages/inner/.prettierrc"), "{}");
    await writeFile(space.path("packages/inner/x.ts"), "1\n");
    expect(await space.failure(format, { path: "packages/inner/x.ts" })).toBe(
      ".prettierrc asks for Prettier, but node_modules/.bin/prettier is not there. Run npm install, or npm install --save-dev prettier.",
    );
  });

  it("is found from a folder below", async () => {
    expect(await space.structured(format, { path: "src", check: true })).toMatchObject({
      formatter: "biome",
    });
  });
});

describe("a project that names its formatter in package.json", () => {
  // A program with Prettier's command line that trims the ends of lines.
  const program = `#!/usr/bin/env node
const { readFileSync, writeFileSync } = require("node:fs");
const path = process.argv.at(-1);
const before = readFileSync(path, "utf8");
const after = before.replace(/ +$/gm, "");
if (process.env.TOOLRACK_TEST_SECRET) throw new Error("the server's environment leaked");
if (process.argv.includes("--write")) { if (after !== before) writeFileSync(path, after); }
else if (after !== before) { console.log(path); process.exitCode = 1; }
`;

  beforeEach(async () => {
    await mkdir(space.path("node_modules/.bin"), { recursive: true });
    await writeFile(space.path("node_modules/.bin/prettier"), program, { mode: 0o755 });
    await writeFile(space.path("text.md"), "a  \n");
    process.env.TOOLRACK_TEST_SECRET = "secret";
  });

  afterEach(() => {
    delete process.env.TOOLRACK_TEST_SECRET;
  });

  it.each([{ prettier: {} }, { devDependencies: { prettier: "3.0.0" } }])(
    "is served: %j",
    async (manifest) => {
      await writeFile(space.path("package.json"), JSON.stringify(manifest));
      expect(await space.structured(format, { path: "text.md", check: true })).toEqual({
        path: "text.md",
        formatter: "prettier",
        checked: true,
        files: ["text.md"],
      });
      expect(await space.text(format, { path: "text.md" })).toBe("Prettier changed 1 file:\ntext.md");
      expect(await contentOf("text.md")).toBe("a\n");
    },
  );

  it("is not served by a formatter that only happens to be installed", async () => {
    expect(await space.failure(format, { path: "text.md" })).toContain("This project has no formatter");
  });
});

describe("without a formatter", () => {
  it("says what to install", async () => {
    expect(await space.failure(format, { path: "src" })).toContain("npm install --save-dev @biomejs/biome");
  });

  it("says what to install when it is configured but missing", async () => {
    await writeFile(space.path("dprint.json"), "{}");
    expect(await space.failure(format, { path: "src" })).toContain("dprint.json asks for dprint");
  });

  it("refuses what lies outside", async () => {
    expect(await space.failure(format, { path: "/etc" })).toContain("lies outside");
  });
});

describe("a formatter that hangs", () => {
  const script =
    'const c = require("child_process").spawn("sleep", ["987"]); console.log(c.pid); setInterval(() => {}, 1e3)';
  const run = (signal: AbortSignal, timeout: number) =>
    runProgram(process.execPath, ["-e", script], { folder: space.directory, signal, timeout });
  const sleepers = () =>
    execFileSync("ps", ["-eo", "args"], { encoding: "utf8" })
      .split("\n")
      .filter((line) => line === "sleep 987");

  it("is ended after the timeout, with everything it started", async () => {
    await expect(run(new AbortController().signal, 400)).rejects.toThrow("did not end within 0.4 seconds");
    expect(sleepers()).toEqual([]);
  });

  it("is ended by a cancel", async () => {
    const controller = new AbortController();
    const running = run(controller.signal, 60_000).catch((error: Error) => error.name);
    await expect.poll(sleepers).toHaveLength(1);
    controller.abort();
    expect(await running).toBe("AbortError");
    expect(sleepers()).toEqual([]);
  });
});
