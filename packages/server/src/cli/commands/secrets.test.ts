import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";
import { type CliOutcome, runCli } from "../testing/run-cli.ts";

let workspace: TemporaryWorkspace;
beforeAll(async () => {
  workspace = await TemporaryWorkspace.create({
    "tools/locked.js": `import { Tool } from "@toolrack/core";
      const environment = { type: "object", properties: { PIN: { type: "string", format: "password" } } };
      export const locked = Tool.define({ name: "locked", aliases: ["fastened"], description: "d", parameters: { type: "object" }, metadata: { environment }, execute: async () => "" });`,
  });
});
afterAll(() => workspace[Symbol.asyncDispose]());

const secrets = (words: readonly string[], input?: string) => values("secrets", words, input);
const settings = (words: readonly string[], input?: string) => values("settings", words, input);

function values(command: string, words: readonly string[], input?: string): Promise<CliOutcome> {
  return runCli([command, ...words], {
    cwd: workspace.directory,
    // Tests leave nothing in the keyring of whoever runs them.
    env: { TOOLRACK_KEYRING: "off" },
    ...(input === undefined ? {} : { input }),
  });
}

describe("toolrack secrets", { timeout: 180_000 }, () => {
  it("keeps a value that no command and no file shows, lists its name and removes it", async () => {
    const set = await secrets(["set", "API_KEY"], "top-secret-value\n");
    expect(set).toMatchObject({ code: 0, stdout: "", stderr: "The secret API_KEY is set.\n" });
    const listed = await secrets([]);
    expect(listed.stdout).toMatch(/^NAME +SET\nAPI_KEY {2}\d{4}-/);
    const folder = join(workspace.directory, ".toolrack");
    for (const entry of await readdir(folder, { withFileTypes: true, recursive: true })) {
      if (!entry.isFile()) continue;
      expect(await readFile(join(entry.parentPath, entry.name), "latin1")).not.toContain("top-secret-value");
    }
    const json = JSON.parse((await secrets(["list", "--json"])).stdout);
    expect(json.secrets).toMatchObject([{ name: "API_KEY", isReadable: true }]);
    expect((await secrets(["remove", "API_KEY"])).code).toBe(0);
    expect((await secrets(["list"])).stderr).toContain("There are no secrets");
  });

  it("keeps a value for the calls of one token, by the token's name or id", async () => {
    const made = await values("tokens", ["create", "ann", "--tools", "x", "--json"]);
    const { id } = JSON.parse(made.stdout);
    const set = await secrets(["set", "API_TOKEN", "--token", "ann"], "value-of-ann");
    expect(set).toMatchObject({ code: 0, stderr: `The secret token.${id}.API_TOKEN is set.\n` });
    expect((await secrets(["set", "API_TOKEN", "--token", "master"], "value-of-hers")).code).toBe(0);
    expect((await secrets(["set", "API_TOKEN", "--token", "eve"], "value-of-eve")).stderr).toContain(
      'There is no token "eve"',
    );
    expect((await secrets(["set", "api-token", "--token", "ann"], "value-of-ann")).code).toBe(2);
    expect((await secrets(["remove", "API_TOKEN", "--token", "master"])).code).toBe(0);
    // It goes with its token.
    await values("tokens", ["remove", "ann"]);
    expect((await secrets(["list"])).stderr).toContain("There are no secrets");
  });

  it.each<[number, string, string[], string]>([
    [2, "no name", ["set"], "value"],
    [2, "no value", ["set", "EMPTY"], ""],
    [2, "a value on the command line", ["set", "NAME", "value"], ""],
    [1, "a name that cannot be one", ["set", "a b"], "long-enough"],
    [1, "a value that is too short", ["set", "TIMEOUT"], "5000"],
    [1, "an unknown one to remove", ["remove", "UNKNOWN"], ""],
  ])("ends with %i for %s", async (code, _, words, input) => {
    const outcome = await secrets([...words, "--json"], input);
    expect(outcome.code).toBe(code);
    expect(JSON.parse(outcome.stdout).error.message).toEqual(expect.any(String));
  });
});

describe("a value that is set for an alias of a tool", { timeout: 180_000 }, () => {
  it("is kept under the name by which the tool is given it", async () => {
    expect((await settings(["set", "fastened", "UNITS=metric"])).stderr).toContain("locked/UNITS is set");
    expect((await secrets(["set", "fastened", "PIN"], "long-enough\n")).stderr).toContain(
      "locked/PIN is set",
    );
    expect((await settings(["set", "fastened", "PIN=1"])).stderr).toContain("secrets set locked PIN");
    await settings(["remove", "locked", "UNITS"]);
    await secrets(["remove", "locked", "PIN"]);
  });
});

describe("toolrack settings", { timeout: 180_000 }, () => {
  it("keeps a value that is shown, from the command line or standard input, and removes it", async () => {
    expect(await settings(["set", "weather", "TIMEOUT=5000"])).toMatchObject({
      code: 0,
      stderr: "The setting weather/TIMEOUT is set to 5000.\n",
    });
    expect((await settings(["set", "REGION=eu=west"])).stderr).toContain("REGION is set to eu=west");
    expect((await settings(["set", "weather", "UNITS", "metric"])).code).toBe(0);
    expect((await settings(["set", "weather", "CITY"], "Bern\n")).code).toBe(0);
    const { settings: listed } = JSON.parse((await settings(["list", "--json"])).stdout);
    expect(listed.map(({ name, value }: Record<string, string>) => [name, value])).toEqual([
      ["REGION", "eu=west"],
      ["weather/CITY", "Bern"],
      ["weather/TIMEOUT", "5000"],
      ["weather/UNITS", "metric"],
    ]);
    expect((await settings([])).stdout).toMatch(/weather\/TIMEOUT +5000 +\d{4}-/);
    expect((await settings(["remove", "weather", "TIMEOUT"])).code).toBe(0);
    expect((await settings(["remove", "weather", "TIMEOUT"])).code).toBe(1);
  });

  it("gives way to a secret of the same name", async () => {
    await settings(["set", "mail", "PASSWORD=seen by all"]);
    await secrets(["set", "mail", "PASSWORD"], "seen by none");
    expect((await settings(["list"])).stdout).not.toContain("PASSWORD");
    const refused = await settings(["set", "mail", "PASSWORD=seen again"]);
    expect([refused.code, refused.stderr]).toEqual([
      1,
      expect.stringContaining("secrets remove mail PASSWORD"),
    ]);
  });

  it("refuses what a tool declares as a secret", async () => {
    const refused = await settings(["set", "locked", "PIN=1234"]);
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining("secrets set locked PIN")]);
  });

  it.each<[string, string[]]>([
    ["no name", ["set"]],
    ["no value", ["set", "EMPTY"]],
    ["a variable that cannot be one", ["set", "weather", "two words=1"]],
  ])("ends with 2 for %s", async (_, words) => {
    expect((await settings(words, "")).code).toBe(2);
  });
});
