import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";
import { type CliOutcome, runCli } from "../testing/run-cli.ts";

const weather = `module.exports = {
  getMetadata: () => ({ id: "weather", name: "Weather", description: "Tells the weather.", examples: [{ city: "Rome" }] }),
  getSchema: () => ({
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
    environment: {
      type: "object",
      properties: { API_KEY: { type: "string", description: "the key" }, RETRIES: { type: "integer", default: 3 } },
      required: ["API_KEY"],
    },
  }),
  getBusinessErrors: () => [{ code: "NO_CITY", description: "no such city", match: /unknown city/i, solution: "Check the spelling.", retryable: false }],
  getBridges: () => ({ "weather:get": { real: async () => "really sunny", mock: async () => "sunny in the mock" } }),
  async execute({ city }) {
    if (city === "Nowhere") throw new Error("Unknown city");
    const { environment } = this.api;
    const weather = await this.api.bridge.execute("weather:get", { city });
    const key = String(environment.get("API_KEY"));
    return [weather, key.length, environment.get("RETRIES") + 1].join(", ");
  },
};`;

const other = `module.exports = {
  getMetadata: () => ({ id: "other" }),
  getSchema: () => ({ environment: { type: "object", properties: { API_KEY: { type: "string" } } } }),
  execute() { return { key: this.api.environment.get("API_KEY") ?? "none", process: process.env.API_KEY ?? "none" }; },
};`;

let workspace: TemporaryWorkspace;
beforeAll(async () => {
  workspace = await TemporaryWorkspace.create({
    "tools/weather.tool.js": weather,
    "tools/other.tool.js": other,
    "tools/plain.ts": `export const schema = { name: "plain", description: "", type: "object", properties: {} }; export default async () => "x";`,
  });
});
afterAll(() => workspace[Symbol.asyncDispose]());

function toolrack(words: readonly string[], input?: string): Promise<CliOutcome> {
  const env = { TOOLRACK_KEYRING: "off", API_KEY: "of-the-server" };
  return runCli(words, { cwd: workspace.directory, env, ...(input === undefined ? {} : { input }) });
}

describe("single-file tools on the command line", { timeout: 180_000 }, () => {
  it("a missing secret is named with the command that sets it, and then reaches this tool alone", async () => {
    const missing = await toolrack(["call", "weather", "city=Rome", "--json"]);
    expect(missing.code).toBe(3);
    expect(JSON.parse(missing.stdout).error).toMatchObject({
      code: "business_error",
      message: expect.stringContaining("toolrack secrets set weather API_KEY"),
      details: { code: "MISSING_ENV_VAR", missing: ["API_KEY"], retryable: false },
    });
    expect(await toolrack(["secrets", "set", "weather", "API_KEY"], "key-of-weather\n")).toMatchObject({
      code: 0,
      stderr: "The secret weather/API_KEY is set.\n",
    });
    const [called, elsewhere, onCommandLine] = await Promise.all([
      toolrack(["call", "weather", "city=Rome"]),
      toolrack(["call", "other"]),
      toolrack(["secrets", "set", "weather", "sk-live-1234"], "x"),
    ]);
    expect(called.stdout).toBe("really sunny, 14, 4\n");
    expect(JSON.parse(elsewhere.stdout)).toEqual({ key: "none", process: "none" });
    expect(onCommandLine).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("never given on the command line"),
    });
  });

  it("can be tried, and tools outside the sandbox cannot", async () => {
    const [dry, plain] = await Promise.all([
      toolrack(["call", "weather", "city=Rome", "--dry-run"]),
      toolrack(["call", "plain", "--dry-run"]),
    ]);
    expect(dry.stdout).toContain("sunny in the mock");
    expect(dry.stderr).toContain("dry run");
    expect(plain).toMatchObject({ code: 1, stdout: "", stderr: expect.stringContaining("has no dry run") });
  });

  it("have a manual", async () => {
    const { stdout } = await toolrack(["show", "weather"]);
    expect(stdout).toMatch(
      /Parameters\nNAME[\s\S]*city[\s\S]*Environment\nNAME[\s\S]*API_KEY +string +required/,
    );
    expect(stdout).toMatch(/RETRIES +integer +3/);
    expect(stdout).toContain("toolrack secrets set weather API_KEY");
    expect(stdout).toMatch(/NO_CITY +no such city +\/unknown city\/i +Check the spelling\. +no/);
    expect(stdout).toContain("weather:get");
    expect(stdout).toContain('{"city":"Rome"}');
  });

  it("answer to tool:// references and to toolx calls", async () => {
    const toolx = "tool: @tool://weather\nmode: dryrun\nparameters:\n  city: Rome\n";
    await workspace.write("call.yaml", toolx);
    const outcomes = await Promise.all([
      toolrack(["call", "tool://weather", "city=Rome", "--dry-run"]),
      toolrack(["call", toolx]),
      toolrack(["call", "-"], toolx),
      toolrack(["call", "@call.yaml"]),
    ]);
    for (const { code, stdout } of outcomes) {
      expect(stdout).toContain("sunny in the mock");
      expect(code).toBe(0);
    }
    expect((await toolrack(["call", "tool: tool://weather\nmode: manual"])).stdout).toContain(
      "Tells the weather.",
    );
    expect((await toolrack(["call", "@missing.yaml"])).code).toBe(2);
  });
});
