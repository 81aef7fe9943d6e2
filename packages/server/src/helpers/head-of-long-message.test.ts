import { expect, test } from "vitest";
import { headOfLongMessage } from "./values.ts";

const long = { name: "t", arguments: { text: "x".repeat(1_000), id: 7, method: "inner" } };
const headOf = (message: unknown) => {
  const line = typeof message === "string" ? message : JSON.stringify(message);
  const { id, method } = headOfLongMessage(line.slice(0, 200), line.slice(-200));
  return [id, method];
};

test.each([
  ["first", { jsonrpc: "2.0", id: 5, method: "tools/call", params: long }, 5],
  ["last", { method: "tools/call", params: long, jsonrpc: "2.0", id: 'a"b' }, 'a"b'],
  ["apart from the method", { id: "x", params: long, method: "tools/call", jsonrpc: "2.0" }, "x"],
])("of a request, id and method are read where the id comes %s", (_, message, id) => {
  expect(headOf(message)).toEqual([id, "tools/call"]);
});

test.each([
  ["first", { jsonrpc: "2.0", id: 5, result: long }],
  ["last", { result: long, jsonrpc: "2.0", id: 5 }],
  ["last of all that an error has", { error: { code: 1, message: "", data: long }, id: 5, jsonrpc: "2.0" }],
  ["in a text with spaces", `{ "id" : 5 , "result" : ${JSON.stringify(long)} }`],
])("an answer whose id comes %s has no method", (_, message) => {
  expect(headOf(message)).toEqual([5, undefined]);
});

test("a notification has no id", () => {
  const message = { jsonrpc: "2.0", method: "notifications/progress", params: long };
  expect(headOf(message)).toEqual([undefined, "notifications/progress"]);
});

test.each([
  ["a batch", [{ jsonrpc: "2.0", id: 5, method: "tools/call", params: long }]],
  ["an id of another type", { id: null, method: 5, result: long }],
  ["a string that is none of JSON", `{"id":"\\q","result":${JSON.stringify(long)}}`],
  ["no message", "x".repeat(1_000)],
])("nothing is read from %s", (_, message) => {
  expect(headOf(message)).toEqual([undefined, undefined]);
});
