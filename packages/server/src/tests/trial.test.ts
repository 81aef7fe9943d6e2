import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { runCli } from "../cli/testing/run-cli.ts";
import { ServedWorkspace } from "../testing/served-workspace.ts";
import { TemporaryWorkspace } from "../testing/temporary-workspace.ts";
import { readTestFile } from "./test-file.ts";

const PASSWORD = "Tr0ub4dor&3xyz";
const readOnly = "{ readOnly: true }";

/** The code of each tool, with its metadata. */
const tools: Readonly<Record<string, readonly [code: string, metadata?: string]>> = {
  // Made of a secret, of which the file of the test has only a reference.
  digest: [
    "({ user: 'ada', digest: createHash('sha256').update(input.password).digest('hex'), fits: true })",
  ],
  mirror: ["'reversed ' + [...input.password].reverse().join('')"],
  basic: ["({ header: Buffer.from('ada:' + input.password).toString('base64') })"],
  refusal: ["(() => { throw new Error('bad ' + input.password.slice(0, 3) + input.password.length); })()"],
  checked: ["({ user: 'ada', length: input.password.length })", readOnly],
  // What a record, or YAML, keeps otherwise.
  nul: ["({ 'k\\0': 'a\\0b', half: 'x\\ud83d', list: ['\\0'] })"],
  numbers: ["({ large: 1e21, whole: 2 ** 60, zero: -0 })"],
  deep: ["Array.from({ length: 60 }).reduce((inner) => ({ inner }), 1)"],
  proto: [`JSON.parse('{"__proto__": 1, "a": 2}')`],
  literal: ["({ a: '$' + '{secret:X}', b: '$$' + '{secret:X}', open: '$' + '{secret:' })"],
  json: [`'{"a": 1}'`, readOnly],
  // Other in every run, or in a rack without a server.
  count: ["({ tools: registry.getAll().length })", readOnly],
  random: ["({ same: 1, other: Math.random(), text: 'x' + Math.random() })", readOnly],
  noise: ["'x' + Math.random()", readOnly],
  failure: ["(() => { throw new Error('no ' + Math.random()); })()", readOnly],
  wrapped: [
    "(await call('echo', { value: { id: crypto.randomUUID(), at: new Date().toISOString() } })).structured",
    readOnly,
  ],
  echo: ["input.value ?? 0"],
  // Cannot become a test.
  flaky: ["(() => { if (runs++ > 0) throw new Error('not again'); return 1; })()", readOnly],
  asking: ["(await call('echo', { value: Math.random() })).structured", readOnly],
};

const source = `import { createHash } from "node:crypto";
import { Tool } from "@toolrack/core";
let runs = 0;
const parameters = { type: "object", properties: { password: { type: "string" }, value: {} } };
${Object.entries(tools)
  .map(
    ([name, [code, metadata = "{}"]]) => `export const ${name} = Tool.define({ name: "${name}", parameters,
  metadata: ${metadata}, execute: async ({ input, call, registry }) => ${code} });`,
  )
  .join("\n")}`;

describe("a call that is saved", { timeout: 240_000 }, () => {
  let workspace: TemporaryWorkspace;
  let served: ServedWorkspace;
  beforeAll(async () => {
    workspace = await TemporaryWorkspace.create({
      "toolrack.config.js": "export default { builtins: false };",
      "tools/odd.ts": source,
    });
    served = await ServedWorkspace.here(workspace.directory);
  }, 120_000);
  afterAll(async () => {
    await served?.[Symbol.asyncDispose]();
    await workspace?.[Symbol.asyncDispose]();
  });
  const save = async (name: string, input: object) => {
    const { body } = await served.call(name, input);
    const callId = body.callId ?? body.error.details.callId;
    return served.ask("POST", `/api/calls/${callId}/test`, { file: name });
  };
  const textOf = (name: string) => readFile(join(workspace.directory, `tests/${name}.calls.yaml`), "utf8");

  it("gives a test that passes, or is refused with the path", async () => {
    const refused: unknown[] = [];
    for (const name of Object.keys(tools)) {
      const { status, body } = await save(name, { password: PASSWORD });
      if (status !== 200) refused.push([name, body.error.code, body.error.details.path]);
    }
    expect(refused).toEqual([
      ["flaky", "call_unwritable", "expect"],
      ["asking", "call_unwritable", "calls"],
    ]);
    const { code, stdout } = await runCli(["test"], { cwd: workspace.directory });
    expect(stdout.split("\n").filter((line) => !line.startsWith("✓"))).toEqual([
      expect.stringMatching(/^\d+ passed \(/),
      "",
    ]);
    expect(code).toBe(0);
  });

  it("expects all that does not depend on the run, and says whether it was tried", async () => {
    const testOf = async (name: string) =>
      (await readTestFile(workspace.directory, `tests/${name}.calls.yaml`)).tests[0];
    expect(await testOf("random")).toMatchObject({
      expect: { snapshot: { same: 1 } },
      ignore: ["/other", "/text"],
    });
    expect(await testOf("checked")).toMatchObject({
      expect: { snapshot: { user: "ada" } },
      ignore: ["/length"],
    });
    expect(await testOf("wrapped")).toMatchObject({ ignore: ["ids", "times"] });
    expect(await testOf("noise")).toMatchObject({ expect: { matches: { type: "string" } } });
    expect(await testOf("json")).toMatchObject({ expect: { snapshot: { a: 1 } } });
    const tried = async (name: string) => (await save(name, {})).body.tried;
    expect([await tried("random"), await tried("echo")]).toEqual([true, false]);
  });

  it("leaves nothing that was made of a secret in its file", async () => {
    const text = (await Promise.all(["digest", "mirror", "basic", "checked", "refusal"].map(textOf))).join();
    const { createHash } = await import("node:crypto");
    for (const made of [
      createHash("sha256").update(PASSWORD).digest("hex"),
      [...PASSWORD].reverse().join(""),
      Buffer.from(`ada:${PASSWORD}`).toString("base64").slice(0, 8),
      PASSWORD.slice(0, 3),
    ])
      expect(text).not.toContain(made);
  });

  it("is refused for tools that only a server has", async () => {
    const { status, body } = await save("toolrack_search", { query: "echo" });
    expect([status, body.error.details.path]).toEqual([409, "tool"]);
  });
});
