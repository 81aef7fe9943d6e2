import { Tool, type ToolInfo } from "@toolrack/core";
import { describe, expect, it } from "vitest";
import type { TrialOutcome } from "../chat/index.ts";
import { TemporaryWorkspace } from "../testing/temporary-workspace.ts";
import { evaluate, readEvalFile } from "./index.ts";
import { difference, wilson } from "./model-runs.ts";

function tool(name: string, description: string, properties: object = {}): ToolInfo {
  return Tool.define({ name, description, parameters: { type: "object", properties }, execute: () => "" });
}

const tools = [
  tool("weather", "Tells the weather of a city.", { city: { type: "string" } }),
  tool("forecast", "Tells what the weather of a city will be on the next days.", {
    city: { type: "string" },
  }),
  tool("send_mail", "Sends a letter by mail."),
  tool("wipe_disk", "Deletes everything."),
];

async function fileOf(yaml: string) {
  await using workspace = await TemporaryWorkspace.create({ "evals/a.yaml": yaml });
  return await readEvalFile(`${workspace.directory}/evals/a.yaml`, "evals/a.yaml");
}

const calls = (...made: [name: string, args?: unknown][]): TrialOutcome => ({
  calls: made.map(([name, args = {}]) => ({ name, arguments: args })),
  offered: new Set(tools.map(({ name }) => name)),
  usage: { prompt_tokens: 10, completion_tokens: 2, total_tokens: 12, cost: 0.5 },
});

/** A model that gives these answers in turn, again and again. */
function modelWith(...outcomes: (TrialOutcome | Error)[]) {
  let asked = 0;
  const ask = async () => {
    const outcome = outcomes[asked++ % outcomes.length]!;
    if (outcome instanceof Error) throw outcome;
    return outcome;
  };
  return { name: "scripted/a", ask };
}

describe("offline", () => {
  it("reports at which rank search finds the expected tool, and what it finds first instead", async () => {
    const file = await fileOf(`
within: 1
cases:
  - prompt: send a letter by mail
    expect: send_mail
  - name: tomorrow
    prompt: the weather of the city on Monday
    expect: forecast
  - prompt: thank you
    expect: []
`);
    const report = await evaluate(file, { tools });
    expect(report).toMatchObject({ file: "evals/a.yaml", passed: false });
    expect(report.model).toBeUndefined();
    const [{ cases, found, searched, confusions }] = report.versions as [(typeof report.versions)[number]];
    expect(cases).toMatchObject([
      {
        name: "send a letter by mail",
        place: "evals/a.yaml:4",
        ranks: { send_mail: 1 },
        ahead: [],
        passed: true,
      },
      { name: "tomorrow", ranks: { forecast: 2 }, ahead: ["weather"], passed: false },
      { expected: [], ranks: {}, passed: true },
    ]);
    expect({ found, searched }).toEqual({ found: 1, searched: 2 });
    expect(confusions).toEqual([{ expected: "forecast", instead: "weather", by: "search", count: 1 }]);
  });

  it("fails a case when search finds a forbidden tool first, or not the expected one", async () => {
    const file = await fileOf(`
cases:
  - { prompt: the weather of the city, expect: forecast, forbid: [weather] }
  - { prompt: quantum, expect: weather }
  - { prompt: the weather of the city, expect: [weather, forecast] }
`);
    const { versions } = await evaluate(file, { tools });
    expect(versions[0]!.cases.map(({ passed }) => passed)).toEqual([false, false, true]);
    expect(versions[0]!.cases[1]!.ranks).toEqual({});
  });

  it("tells the tools as they are first, whatever versions are called", async () => {
    const cases = "cases:\n  - { prompt: send a letter by mail, expect: send_mail }\n";
    const file = await fileOf(`versions:\n  1: { send_mail: Nothing. }\n${cases}`);
    const { versions, passed } = await evaluate(file, { tools });
    expect([versions.map(({ version }) => version), passed]).toEqual([["current", "1"], true]);
    await expect(fileOf(`versions:\n  current: { send_mail: Nothing. }\n${cases}`)).rejects.toThrow(
      'evals/a.yaml:2: No version may be called "current"',
    );
  });

  it("compares versions of a description", async () => {
    const file = await fileOf(`
within: 1
versions:
  clearer: { forecast: "Tells the weather of the coming days, Monday to Sunday." }
cases:
  - { prompt: the weather on Monday, expect: forecast }
`);
    const { versions, passed } = await evaluate(file, { tools });
    expect(versions.map(({ version, found }) => [version, found])).toEqual([
      ["current", 0],
      ["clearer", 1],
    ]);
    expect(versions[1]!.tokens).not.toBe(versions[0]!.tokens);
    expect(passed).toBe(false);
  });

  it("tries only the tools that take part, and not those that are switched off", async () => {
    const file = await fileOf(
      "tools: [fore*]\nwithin: 1\ncases:\n  - { prompt: the weather of a city, expect: forecast }\n",
    );
    expect((await evaluate(file, { tools })).passed).toBe(true);
    const disabled = tools.map((one) => ({ ...one, disabled: true }));
    await expect(evaluate(file, { tools: disabled })).rejects.toThrow(
      'evals/a.yaml:4: No tool that takes part has the name "forecast"',
    );
  });
});

describe("a wrong file", () => {
  it.each([
    [
      "an expected tool that does not exist",
      "cases:\n  - prompt: a\n    expect: wether\n",
      /a\.yaml:3: .*"wether".*Did you mean weather/,
    ],
    [
      "a version of a tool that does not exist",
      "versions:\n  v:\n    nope: text\ncases:\n  - { prompt: a, expect: [] }\n",
      /a\.yaml:3: .*"nope"/,
    ],
  ])("names the line of %s", async (_what, yaml, message) => {
    const file = await fileOf(yaml);
    await expect(evaluate(file, { tools })).rejects.toThrow(message);
  });

  it.each([
    ["no cases", "runs: 3\n", /a\.yaml:1: `cases` is missing/],
    ["a case without a prompt", "cases:\n  - expect: a\n", /a\.yaml:2: `cases\[0\]\.prompt` is missing/],
    [
      "a case without an expectation",
      "cases:\n  - prompt: a\n",
      /a\.yaml:2: `cases\[0\]\.expect` is missing/,
    ],
    ["a rate above one", "rate: 80\ncases: []\n", /a\.yaml:1: .*`rate`/],
    [
      "an unknown key",
      "cases:\n  - { prompt: a, expect: b, forbids: [c] }\n",
      /a\.yaml:2: .*did you mean `forbid`/,
    ],
  ])("is refused with its line for %s", async (_what, yaml, message) => {
    await expect(fileOf(yaml)).rejects.toThrow(message);
  });
});

describe("with a model", () => {
  const one = (expect: string) =>
    fileOf(`runs: 4\nrate: 0.5\ncases:\n  - prompt: What is the weather in Oslo?\n    ${expect}\n`);
  const caseOf = async (expect: string, ...outcomes: (TrialOutcome | Error)[]) => {
    const { versions } = await evaluate(await one(expect), { tools, model: modelWith(...outcomes) });
    return versions[0]!.cases[0]!;
  };

  it("reports hit rates with an interval, tokens, cost and what was called instead", async () => {
    const file = await one("expect: weather");
    const model = modelWith(calls(["weather"]), calls(["weather"]), calls(["forecast"]), calls());
    const report = await evaluate(file, { tools, model });
    expect(report).toMatchObject({ model: "scripted/a", passed: true });
    const [{ cases, confusions, model: total }] = report.versions as [(typeof report.versions)[number]];
    expect(cases[0]!.model).toEqual({
      hits: 2,
      runs: 4,
      interval: wilson(2, 4),
      errors: 0,
      calls: { weather: 2, forecast: 1 },
      misses: { "called forecast instead of weather": 1, "called no tool instead of weather": 1 },
    });
    expect(confusions).toContainEqual({ expected: "weather", instead: "forecast", by: "model", count: 1 });
    expect(total?.usage).toMatchObject({ prompt_tokens: 40, completion_tokens: 8, cost: 2 });
  });

  it("asks as often as the command line says", async () => {
    const report = await evaluate(await one("expect: weather"), {
      tools,
      runs: 7,
      model: modelWith(calls(["weather"])),
    });
    expect(report.versions[0]!.model).toMatchObject({ hits: 7, runs: 7 });
  });

  it.each([
    ["the wanted arguments beside others", { city: "Oslo", unit: "C" }, 4],
    ["other arguments", { city: "Rome" }, 0],
    ["arguments that are no JSON", '{"city": "Os', 0],
  ])("judges %s", async (_what, args, hits) => {
    const expect1 = "expect: [{ tool: weather, arguments: { city: Oslo } }]";
    expect((await caseOf(expect1, calls(["weather", args]))).model).toMatchObject({ hits });
  });

  it("takes arguments that the tool would refuse for a miss", async () => {
    const { misses } = (await caseOf("expect: weather", calls(["weather", { city: 7 }]))).model!;
    expect(Object.keys(misses)[0]).toMatch(/do not fit: .*`city`/);
  });

  it("takes a forbidden call for a miss, also beside the expected one, and any call where none is expected", async () => {
    const forbidden = await caseOf(
      "expect: weather\n    forbid: [wipe_*]",
      calls(["weather"], ["wipe_disk"]),
    );
    expect(forbidden.model).toMatchObject({ hits: 0, misses: { "called wipe_disk, which is forbidden": 4 } });
    expect((await caseOf("expect: []", calls(["weather"]))).passed).toBe(false);
    expect((await caseOf("expect: []", calls())).passed).toBe(true);
  });

  it("wants all of several tools", async () => {
    expect((await caseOf("expect: [weather, send_mail]", calls(["weather"]))).model).toMatchObject({
      hits: 0,
    });
    expect(
      (await caseOf("expect: [weather, send_mail]", calls(["send_mail"], ["weather"]))).model,
    ).toMatchObject({ hits: 4 });
  });

  it("counts a failure of the provider apart, and stops when it goes on failing", async () => {
    const down = new Error("the provider is down");
    const outcome = await caseOf("expect: weather", down, calls(["weather"]));
    expect(outcome.model).toMatchObject({ runs: 2, hits: 2, errors: 2 });
    await expect(caseOf("expect: weather", down)).rejects.toThrow("the provider is down");
  });

  it("says whether another description changes the hit rate by more than chance", async () => {
    const file = await fileOf(`
runs: 30
versions:
  better: { forecast: "The weather of the next days." }
  same: { forecast: "What comes." }
cases:
  - { prompt: the weather on Monday, expect: forecast }
`);
    const ask = async (registry: { get(name: string): ToolInfo | undefined }) =>
      registry.get("forecast")?.description?.includes("next days.") &&
      !registry.get("forecast")?.description?.startsWith("Tells")
        ? calls(["forecast"])
        : calls(["weather"]);
    const { versions } = await evaluate(file, { tools, model: { name: "scripted/a", ask } });
    expect(versions.map(({ change }) => change?.isSure)).toEqual([undefined, true, false]);
    expect(versions[1]!.change!.interval[0]).toBeGreaterThan(0.5);
  });
});

describe("intervals", () => {
  it("are those of Wilson", () => {
    const rounded = (hits: number, runs: number) =>
      wilson(hits, runs).map((share) => Number(share.toFixed(4)));
    expect(rounded(0, 10)).toEqual([0, 0.2775]);
    expect(rounded(10, 10)).toEqual([0.7225, 1]);
    expect(rounded(5, 10)).toEqual([0.2366, 0.7634]);
    expect(rounded(81, 263)).toEqual([0.2553, 0.3662]);
    expect(wilson(0, 0)).toEqual([0, 1]);
  });

  it("of a difference are those of Newcombe", () => {
    const [low, high] = difference({ hits: 48, runs: 80 }, { hits: 56, runs: 70 });
    expect(low).toBeCloseTo(0.0524, 3);
    expect(high).toBeCloseTo(0.3339, 3);
  });
});
