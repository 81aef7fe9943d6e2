import { masterGrant } from "../../access/index.ts";
import { reasonOf } from "../../helpers/index.ts";
import {
  type FoundTest,
  mockModes,
  readTestFiles,
  recordTest,
  saveTest,
  selectTests,
  settleTest,
  type TestResult,
  TestRunner,
  testFileSchema,
  UnwritableCall,
} from "../../tests/index.ts";
import { unknownCall } from "../call-answers.ts";
import type { HttpServices } from "../services.ts";
import { HttpError, type Route, routesFor, s, whileAwaited } from "../wire/index.ts";

/** As whom tests call tools on the server: their records are told apart by it. */
const tester = { ...masterGrant, caller: "test" };

const ofTool = "Only tests that call this tool themselves, or answer a call of it.";

export function testRoutes(services: HttpServices): Route[] {
  const { registry, store, skills, service, values, workspace } = services;
  const route = routesFor("tests", "admin");
  const { directory } = workspace;
  /** How each test ended last on this server, by file and name. */
  const last = new Map<string, TestResult & { readonly at: number }>();
  const keyOf = ({ file, name }: { file: string; name: string }) => `${file} ${name}`;
  const runner = new TestRunner({
    registry,
    directory,
    isServed: true,
    expertAllows: (name) => skills.experts.find(name)?.allows,
    secretOf: async (name) => process.env[name] ?? (await values.secrets.get(name)),
    call: async (name, input, options) =>
      (await service.run({ name, input, grant: tester, via: "test", ...options })).result,
  });
  const isOf = ({ tool, calls = [] }: FoundTest, wanted: string | undefined) => {
    const name = wanted === undefined ? tool : (registry.get(wanted)?.name ?? wanted);
    return tool === name || calls.some((call) => call.tool === name);
  };
  return [
    route("POST /api/calls/{callId}/test", "saveTest", "Writes a test of a recorded call", {
      description:
        "Into `tests/*.calls.yaml` of the workspace: the call, what came of it, and what the calls that it made answered. No secret is written: a reference stands for it.",
      params: { callId: s.text({ minLength: 1 }) },
      optionalBody: s.closed({
        "name?": s.text("What the test is called.", { minLength: 1, maxLength: 200 }),
        "file?": s.text("The file in `tests`. Default: the tool's.", { pattern: "^[\\w.-]{1,100}$" }),
      }),
      answer: [
        "The test.",
        s.object({
          file: s.text("Relative to the workspace."),
          name: s.text(),
          test: s.anyObject(),
          tried: s.boolean("Whether it was run, and passed. One whose tool may change something is not run."),
        }),
      ],
      errors: ["call_not_found", "call_unwritable"],
      async handle({ params: { callId }, body: { name, file }, incoming }) {
        if ((await store.calls.get(callId)) === undefined) throw unknownCall(callId);
        const { host = "127.0.0.1:7300" } = incoming.headers;
        try {
          const settled = await settleTest(
            await recordTest(callId, { ...store, registry }, name),
            runner,
            registry,
          );
          const schemaUrl = `http://${host}/schemas/calls.json`;
          return await saveTest(directory, settled, { file, isNamed: name !== undefined, schemaUrl });
        } catch (thrown) {
          const path = thrown instanceof UnwritableCall ? thrown.path : undefined;
          throw new HttpError("call_unwritable", reasonOf(thrown), { details: { callId, path } });
        }
      },
    }),
    route("GET /api/tests", "listTests", "The tests of the workspace, and how each ended last", {
      query: { tool: s.text(ofTool) },
      answer: [
        "The tests.",
        s.object({ items: s.list(s.ref("SavedTest")), failures: s.list(s.ref("TestFileFailure")) }),
      ],
      async handle({ query: { tool } }) {
        const files = await readTestFiles(directory);
        return {
          items: selectTests(files, undefined, (test) => isOf(test, tool)).flatMap(({ tests }) =>
            tests.map((test) => {
              const { file, line, name, tool: tested } = test;
              return { file, line, name, tool: tested, last: last.get(keyOf(test)) };
            }),
          ),
          failures: files.flatMap((file) => file.failures),
        };
      },
    }),
    route("POST /api/tests/run", "runTests", "Runs tests of the workspace", {
      description: "On the tools as they are served now. The calls are recorded, with the caller `test`.",
      optionalBody: s.closed({
        "tool?": s.text(ofTool),
        "file?": s.text(),
        "name?": s.text(),
        "mock?": s.choice(mockModes, {
          default: "recorded",
          description: "What answers inner calls; see the guide.",
        }),
      }),
      answer: ["How they ended.", s.ref("TestReport")],
      async handle({ body: { tool, file, name, mock: mode = "recorded" }, incoming, outgoing }) {
        const isMeant = (test: FoundTest) =>
          isOf(test, tool) &&
          (file === undefined || test.file === file) &&
          (name === undefined || test.name === name);
        const files = selectTests(await readTestFiles(directory), undefined, isMeant);
        const report = await whileAwaited(incoming, outgoing, (signal) =>
          runner.run(files, { mode, signal }),
        );
        for (const result of report?.results ?? []) last.set(keyOf(result), { ...result, at: Date.now() });
        return report;
      },
    }),
    routesFor("tests", "open")(
      "GET /schemas/calls.json",
      "testFileSchema",
      "The JSON Schema of files of tests",
      {
        description: "For editors: `# yaml-language-server: $schema=…` in the first line of a file.",
        answer: ["The schema.", s.anyObject()],
        handle: async () => testFileSchema,
      },
    ),
  ];
}
