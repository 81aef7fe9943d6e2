import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { ToolRegistry } from "@toolrack/core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { defaultSettings } from "../packages/core/src/call/settings.ts";
import { exitCodes, makeProgram } from "../packages/server/src/cli/index.ts";
import { configVariables } from "../packages/server/src/config/config-variables.ts";
import { DocsExamples, isCommand, isFile, isProgram, type Outcome, withWildcards } from "./docs-examples.ts";
import { blocksOf, chinesePathOf, type Page, pages, root, withoutFences } from "./docs-pages.ts";
import { builtinPages } from "./write-builtin-reference.ts";
import { errorPages } from "./write-error-reference.ts";
import { httpPages } from "./write-http-reference.ts";

/** The two languages show the same blocks, which is tested below: those of one are run. */
const english = pages.filter(({ path }) => !path.includes("zh-CN"));
const programs = english.flatMap((page) => blocksOf(page).filter(isProgram));
const commands = english.flatMap((page) => blocksOf(page).filter(isCommand));

describe("every example in the documentation", () => {
  let folder = "";
  let examples: DocsExamples;
  const outcomes = new Map<string, Outcome>();

  beforeAll(async () => {
    folder = mkdtempSync(join(root, "packages/server/.docs-tmp-"));
    examples = new DocsExamples(folder);
    const jobs = [
      ...english.filter(needsWorkspace).map((page) => async () => {
        for (const [block, outcome] of await examples.runPage(page)) outcomes.set(block.place, outcome);
      }),
      ...programs.map((block, index) => async () => {
        outcomes.set(block.place, await examples.runProgram(block, index));
      }),
    ];
    const work = async () => {
      for (let next = jobs.shift(); next !== undefined; next = jobs.shift()) await next();
    };
    await Promise.all([work(), work()]);
  }, 1_200_000);

  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it.each(programs)("runs and prints what it says: $place", ({ place, output }) => {
    const outcome = outcomes.get(place);
    expect(outcome?.exitCode, outcome?.printed).toBe(0);
    if (output !== undefined) expect(withWildcards(outcome?.printed ?? "", output)).toBe(output);
  });

  it.each(commands)("answers on the command line what it says: $place", ({ place, output }) => {
    const outcome = outcomes.get(place);
    // A command that fails is shown with what it says.
    if (output === undefined) expect(outcome?.exitCode, outcome?.printed).toBe(0);
    else expect(withWildcards(outcome?.printed ?? "", output)).toBe(output);
  });

  it("has right types", async () => {
    expect(await examples.typeErrors()).toEqual([]);
  }, 1_200_000);
});

it("marks every block as what it is, so that no example goes unrun", () => {
  const known = ["ts", "js", "text", "sh", "mermaid"];
  const blocks = pages.flatMap(blocksOf);
  expect(blocks.filter(({ language }) => !known.includes(language)).map(({ place }) => place)).toEqual([]);
  const unnamed = blocks.filter((block) => block.language === "js" && !isFile(block));
  expect(unnamed.map(({ place }) => place)).toEqual([]);
});

describe("the Chinese documentation", () => {
  const translated = pages.filter(({ path }) => chinesePathOf(path) !== undefined);

  it.each(translated)("says the same as $path", ({ path, text }) => {
    const chinese = pages.find((page) => page.path === chinesePathOf(path));
    expect(chinese, `${chinesePathOf(path)} is missing`).toBeDefined();
    expect(headingLevels(chinese!.text)).toEqual(headingLevels(text));
    expect(fences(chinese!)).toEqual(fences({ path, text }));
  });

  it("translates no page that does not exist", () => {
    const expected = translated.map(({ path }) => chinesePathOf(path)).sort();
    const actual = pages.map(({ path }) => path).filter((path) => path.includes("zh-CN"));
    expect(actual.sort()).toEqual(expected);
  });
});

describe("the reference", () => {
  it.each(Object.entries(errorPages))("of errors is what the generator writes: %s", (path, write) => {
    expect(textOf(path), "Run npm run docs:errors").toBe(write());
  });

  it.each(Object.entries(builtinPages))(
    "of built-in tools is what the generator writes: %s",
    async (path, write) => {
      expect(textOf(path), "Run node scripts/run.mjs scripts/write-builtin-reference.ts").toBe(await write());
    },
  );

  it.each(Object.entries(httpPages))(
    "of the HTTP API is what the generator writes: %s",
    async (path, write) => {
      expect(textOf(path), "Run npm run docs:http").toBe(await write());
    },
  );

  it("names every command, option and exit code", () => {
    const text = textOf("docs/reference/cli.md");
    const program = makeProgram(async () => {});
    const commands = program.commands.filter((command) => !command.name().startsWith("_"));
    const options = [program, ...commands].flatMap((command) => command.options.map(({ long }) => long));
    const unnamed = [
      ...commands.map((command) => `## toolrack ${command.name()}`).filter((title) => !text.includes(title)),
      ...options.filter((long) => !text.includes(`${long}\``) && !text.includes(`${long} `)),
      ...Object.values(exitCodes).filter((code) => !text.includes(`| ${code} |`)),
    ];
    expect(unnamed).toEqual([]);
  });

  it("names every key of the config and every field of the log", () => {
    const keys = configVariables.map(({ key }) => key);
    const fields = membersOf("packages/server/src/calls/log.ts", "LogLine");
    expect(keys).toContain("log.maxBytes");
    const config = textOf("docs/reference/config.md");
    const log = textOf("docs/reference/log.md");
    expect(keys.filter((key) => !config.includes(`| \`${key}\` |`))).toEqual([]);
    expect(fields.filter((field) => !log.includes(`| \`${field}\` |`))).toEqual([]);
  });

  it("names every method and every setting of the registry", () => {
    const text = textOf("docs/reference/registry.md");
    const methods = Object.getOwnPropertyNames(ToolRegistry.prototype).filter(
      (name) => name !== "constructor",
    );
    const unnamed = [
      ...methods.filter((name) => !text.includes(`\`${name}(`) && !text.includes(`| \`${name}\` |`)),
      ...Object.keys(defaultSettings).filter((name) => !text.includes(`| \`${name}\` |`)),
    ];
    expect(unnamed).toEqual([]);
  });
});

describe("links", () => {
  it.each(pages)("of $path lead to files and headings that exist", ({ path, text }) => {
    const links = [...withoutFences(text).matchAll(/\]\(([^)\s]+)\)/g)].map((match) => match[1]!);
    const inside = links.filter((link) => !/^[a-z]+:/.test(link));
    const broken = inside.filter((link) => {
      const [file, heading] = link.split("#");
      const target = file === "" ? path : join(dirname(path), file!);
      if (!existsSync(join(root, target))) return true;
      return heading !== undefined && !headingsOf(textOf(target)).map(anchorOf).includes(heading);
    });
    expect(broken).toEqual([]);
  });
});

function needsWorkspace(page: Page): boolean {
  return blocksOf(page).some((block) => isFile(block) || isCommand(block));
}

function fences(page: Page): string[] {
  return blocksOf(page).map(({ language, code }) => `${language}\n${code}`);
}

function headingLevels(text: string): number[] {
  return [...withoutFences(text).matchAll(/^(#+) /gm)].map((match) => match[1]!.length);
}

function headingsOf(text: string): string[] {
  return [...withoutFences(text).matchAll(/^#+ (.*)$/gm)].map((match) => match[1]!);
}

/** What GitHub makes of a heading to link to it. */
function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\p{M} _-]/gu, "")
    .replaceAll(" ", "-");
}

function textOf(path: string): string {
  return readFileSync(join(root, path), "utf8");
}

/** The names of an interface's members as its source has them; those of an object in it as `outer.inner`. */
function membersOf(path: string, name: string): string[] {
  const body = textOf(path).split(`export interface ${name} {`)[1]!.split("\n}")[0]!;
  let outer = "";
  return [...body.matchAll(/^( +)readonly (\w+)\??: (\{?)/gm)].flatMap(([, indent, member, brace]) => {
    if (indent!.length > 2) return [`${outer}.${member}`];
    outer = member!;
    return brace === "" ? [member!] : [];
  });
}
