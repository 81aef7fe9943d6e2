import { expect, it } from "vitest";
import { mergeCarelessly } from "./escape/escape-suite.fixture.ts";
import { readWorkerMessage } from "./worker-channel.ts";

const notify = (params: string) => `{"type":"notify","call":1,"method":"log","params":${params}}`;
const hostile = [
  `{"__proto__":{"polluted":1}}`,
  `{"\\u005f_proto__":{"polluted":1}}`,
  `{"_\\u005Fproto_\\u005f":{"polluted":1}}`,
  `{"a":[{"__proto__":{"polluted":1}}]}`,
  `{"constructor":{"prototype":{"polluted":1}}}`,
  `{"\\u0063onstructor":{"prototype":{"polluted":1}}}`,
];

it.each(hostile)("keeps %s from any prototype", (text) => {
  const message = readWorkerMessage(notify(text));
  const target: Record<string, unknown> = { a: [{}] };
  mergeCarelessly(target, "params" in message ? message.params : undefined);
  expect("polluted" in {}).toBe(false);
});

it("would be polluted by the plain way, so the test above can fail", () => {
  mergeCarelessly({}, JSON.parse(hostile[0] ?? ""));
  expect("polluted" in {}).toBe(true);
  delete (Object.prototype as { polluted?: unknown }).polluted;
});

it("leaves ordinary data as it is", () => {
  const params = {
    constructor: "Ltd.",
    proto: 1,
    text: "\u0001 __proto__",
    list: [{ constructor: { name: "x" } }],
  };
  expect(readWorkerMessage(notify(JSON.stringify(params)))).toMatchObject({ params });
});

it.each([
  "",
  "null",
  "[]",
  "{}",
  `{"type":"result"}`,
  `{"type":"result","id":"1"}`,
  `{"type":"result","id":1.5}`,
  `{"type":"request","id":1,"call":1,"method":7}`,
  notify("[".repeat(300) + "]".repeat(300)),
  notify(`${"[".repeat(1_000_000)}`),
])("refuses %.40s", (line) => {
  expect(() => readWorkerMessage(line)).toThrow();
});

it("takes brackets in texts for what they are", () => {
  const params = ["[".repeat(5_000), '"\\"[[['.repeat(500)];
  expect(readWorkerMessage(notify(JSON.stringify(params)))).toMatchObject({ params });
});

it("makes something readable of an error that is none", () => {
  expect(readWorkerMessage(`{"type":"result","id":1,"error":7}`)).toEqual({
    type: "result",
    id: 1,
    result: undefined,
    error: { name: "Error", message: "An error without a message." },
  });
});

it("refuses more keys than the server can look at without keeping others waiting", () => {
  const keys = (count: number) => `{${Array.from({ length: count }, (_, at) => `"k${at}":1`).join()}}`;
  expect(() => readWorkerMessage(notify(keys(1_000_001)))).toThrow("the data has more than 1,000,000 keys");
  expect(readWorkerMessage(notify(keys(90_000))).type).toBe("notify");
});
