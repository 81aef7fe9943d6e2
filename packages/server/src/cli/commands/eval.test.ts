import { LLMock } from "@copilotkit/aimock";
import { describe, expect, it } from "vitest";
import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";
import { runCli } from "../testing/run-cli.ts";

const tools = `
import { Tool } from "@toolrack/core";
const define = (name, description, execute = async () => { throw new Error("A tool ran."); }) =>
  Tool.define({ name, description, execute, parameters: { type: "object", properties: { city: { type: "string" } } } });
export const weather = define("weather", "Tells the weather of a city.");
export const forecast = define("forecast", "Tells what the weather will be on the next days.");
export const cities = define("list_cities", "Lists the cities that are known.");
`;

const evals = `
runs: 3
cases:
  - prompt: the weather of a city
    expect: [{ tool: weather, arguments: { city: Oslo } }]
    forbid: [forecast]
`;

const files = (providers: object = {}) => ({
  "toolrack.config.js": `export default ${JSON.stringify({ builtins: false, providers })};`,
  "tools/weather.js": tools,
  "evals/weather.yaml": evals,
});

/** A workspace whose model is a script, which is told of every request. */
async function withModel(
  script: (request: { messages: readonly { role: string; content?: unknown }[]; tools?: unknown }) => object,
  use: (workspace: TemporaryWorkspace) => Promise<void>,
): Promise<void> {
  const mock = new LLMock({ port: 0 });
  await mock.start();
  // The script reads what the chat sends, and answers in the mock's form.
  mock.on({ predicate: () => true }, (request) => script(request as never) as never);
  const price = { input: 1, output: 2 };
  const scripted = { baseURL: `${mock.url}/v1`, apiKey: "key", models: [{ id: "model-a", price }] };
  await using workspace = await TemporaryWorkspace.create(files({ scripted }));
  try {
    await use(workspace);
  } finally {
    await mock.stop();
  }
}

const call = (name: string, args: object) => ({ toolCalls: [{ name, arguments: JSON.stringify(args) }] });

describe("toolrack eval", { timeout: 60_000 }, () => {
  it("asks search alone where no provider is configured", async () => {
    await using workspace = await TemporaryWorkspace.create(files());
    const { code, stdout, stderr } = await runCli(["eval"], { cwd: workspace.directory });
    expect(stdout).toMatch(
      /^evals\/weather\.yaml\n +RANK +PROMPT +EXPECTED\n {2}ok +1 +the weather of a city +weather\n/,
    );
    expect(stdout).toContain("Search finds the tools of 1 of 1 prompts.");
    expect(stderr).not.toContain("Asking");
    expect(code).toBe(0);
  });

  it("takes a folder for its files, and no count of runs below one", async () => {
    await using workspace = await TemporaryWorkspace.create(files());
    const folder = await runCli(["eval", "evals"], { cwd: workspace.directory });
    expect([folder.code, folder.stdout]).toEqual([0, expect.stringContaining("evals/weather.yaml")]);
    const none = await runCli(["eval", "--runs", "0"], { cwd: workspace.directory });
    expect([none.code, none.stderr]).toEqual([2, expect.stringContaining("1 or more")]);
  });

  it("fails with 3 when a case fails, and names what search finds first", async () => {
    await using workspace = await TemporaryWorkspace.create({
      ...files(),
      "evals/late.yaml":
        "within: 1\ncases:\n  - { prompt: what the weather of a city is, expect: list_cities }\n",
    });
    const { code, stdout } = await runCli(["eval", "evals/*.yaml"], { cwd: workspace.directory });
    expect(code).toBe(3);
    expect(stdout).toMatch(/miss +\d +what the weather of a city is +list_cities +behind weather/);
    expect(stdout).toMatch(/Confused: for list_cities, search finds \w+ first \(1\)\./);
  });

  it("asks the model as often as wanted and runs no tool", async () => {
    let asked = 0;
    await withModel(
      () => (asked++ === 0 ? call("forecast", {}) : call("weather", { city: "Oslo" })),
      async ({ directory }) => {
        const { code, stdout, stderr } = await runCli(["eval", "--runs", "10", "--json"], { cwd: directory });
        expect(stderr).toContain("Asking scripted/model-a 10 times for evals/weather.yaml. No tool is run");
        const [{ model, versions }] = JSON.parse(stdout).files;
        expect(model).toBe("scripted/model-a");
        expect(versions[0].cases[0].model).toMatchObject({
          hits: 9,
          runs: 10,
          calls: { forecast: 1, weather: 9 },
          misses: { "called forecast, which is forbidden": 1 },
        });
        const [low, high] = versions[0].model.interval;
        expect([low.toFixed(2), high.toFixed(2)]).toEqual(["0.60", "0.98"]);
        expect(versions[0].model.usage.prompt_tokens).toBeGreaterThan(0);
        expect(versions[0].model.usage.cost).toBeGreaterThan(0);
        expect(versions[0].confusions).toContainEqual({
          expected: "weather",
          instead: "forecast",
          by: "model",
          count: 1,
        });
        expect(code).toBe(0);
        expect(asked).toBe(10);
      },
    );
  });

  it("fails when the model misses too often, and asks none with --offline", async () => {
    let asked = 0;
    await withModel(
      () => {
        asked++;
        return { content: "It rains." };
      },
      async ({ directory }) => {
        const { code, stdout } = await runCli(["eval"], { cwd: directory });
        expect(code).toBe(3);
        expect(stdout).toMatch(
          /miss +0\/3 \(0 %–56 %\) +1 +the weather of a city +weather +called no tool instead of weather/,
        );
        expect(asked).toBe(3);
        expect((await runCli(["eval", "--offline"], { cwd: directory })).code).toBe(0);
        expect(asked).toBe(3);
      },
    );
  });

  it("goes on with the answers of the file", async () => {
    const seen: unknown[] = [];
    await withModel(
      ({ messages }) => {
        const last = messages.at(-1);
        if (last?.role !== "tool") return call("list_cities", {});
        seen.push(last.content);
        return call("weather", { city: "Oslo" });
      },
      async (workspace) => {
        await workspace.write("evals/weather.yaml", `${evals}    answers: { list_cities: "Oslo, Rome" }\n`);
        const { code, stdout } = await runCli(["eval", "--json"], { cwd: workspace.directory });
        expect(JSON.parse(stdout).files[0].versions[0].model).toMatchObject({ hits: 3, runs: 3 });
        expect(seen).toEqual(["Oslo, Rome", "Oslo, Rome", "Oslo, Rome"]);
        expect(code).toBe(0);
      },
    );
  });

  it("compares two versions of a description, as the model reads them", async () => {
    await withModel(
      ({ tools }) =>
        call(JSON.stringify(tools).includes("right now") ? "weather" : "forecast", { city: "Oslo" }),
      async (workspace) => {
        await workspace.write(
          "evals/weather.yaml",
          `${evals}versions:\n  now: { weather: Tells the weather right now. }\n`,
        );
        const { code, stdout } = await runCli(["eval", "--runs", "20"], { cwd: workspace.directory });
        expect(stdout).toMatch(
          / {2}current\n[\s\S]*The model hits 0\/20[\s\S]* {2}now\n[\s\S]*The model hits 20\/20/,
        );
        expect(stdout).toMatch(/Against current: \+7\d to \+1\d\d points\.$/m);
        // The tools as they are do not pass.
        expect(code).toBe(3);
      },
    );
  });

  it("names file and line of what is wrong", async () => {
    await using workspace = await TemporaryWorkspace.create({
      ...files(),
      "evals/wrong.yaml": "cases:\n  - prompt: a\n    expect: weathr\n",
      "evals/bomb.yml": "cases: &a [*a, *a]\n",
    });
    const run = (...args: string[]) => runCli(["eval", ...args], { cwd: workspace.directory });
    const wrong = await run("evals/wrong.yaml", "--json");
    expect([wrong.code, JSON.parse(wrong.stdout).error]).toMatchObject([
      1,
      { code: "eval_invalid", details: { file: "evals/wrong.yaml", line: 3 } },
    ]);
    expect((await run("evals/bomb.yml")).stderr).toContain("evals/bomb.yml:1: Anchors are not read here.");
    expect((await run("evals/none.yaml")).stderr).toContain("There is no file of evals at evals/none.yaml.");
    expect((await run("--model", "gpt", "evals/weather.yaml")).stderr).toContain(
      "No model provider is configured",
    );
  });
});
