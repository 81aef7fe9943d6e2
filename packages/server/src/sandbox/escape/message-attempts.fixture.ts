import type { Attempt } from "./attempt.fixture.ts";

const forge = `const forge = (line) => require("fs").writeSync(3, line + "\\n");`;
const later = `await new Promise((done) => setTimeout(done, 100));`;

/** Against the host itself, by what is sent to it. Some end the worker, which is as good an answer as any. */
export const messageAttempts: readonly Attempt[] = [
  {
    name: "answer with __proto__",
    body: `return JSON.parse('{"__proto__":{"polluted":1},"a":{"__proto__":{"polluted":1}}}')`,
  },
  {
    name: "answer with constructor.prototype",
    body: `return { constructor: { prototype: { polluted: 1 } } }`,
  },
  {
    name: "answer with an escaped __proto__",
    body: `${forge} forge('{"type":"notify","call":1,"method":"log","params":{"\\\\u005f_proto__":{"polluted":1}}}'); ${later}`,
  },
  {
    name: "answer with a toJSON of its own",
    body: `return { toJSON: () => ({ __proto__: null, ["__proto__"]: { polluted: 1 } }) }`,
  },
  {
    name: "throw with __proto__ in its data",
    body: `throw Object.assign(new Error("x"), { data: JSON.parse('{"__proto__":{"polluted":1}}'), code: "__proto__" })`,
  },
  { name: "throw something strange", body: `throw new Proxy({}, { get() { throw new Error("no") } })` },
  {
    name: "log with __proto__",
    body: `call.notify("__proto__", JSON.parse('{"__proto__":{"polluted":1}}')); call.notify("constructor", null)`,
  },
  {
    name: "ask for __proto__",
    body: `return call.request("__proto__", JSON.parse('{"__proto__":{"polluted":1}}'))`,
  },
  {
    name: "forge the answers of other calls",
    body: `${forge} for (const id of [-1, 0, 1e15, 2.5, 1, 2, 3]) forge(JSON.stringify({ type: "result", id, result: "forged" })); ${later}`,
  },
  {
    name: "forge what the host says at the start",
    body: `${forge} forge('{"type":"ready"}'); forge('{"type":"loaded","error":{"name":"E","message":"m"}}'); forge('{"type":"load","code":"1"}'); ${later}`,
  },
  {
    name: "forge requests of calls that are not",
    body: `${forge} for (let id = 0; id < 500; id++) forge(JSON.stringify({ type: "request", id, call: id * 7 + 100000, method: "callTool", params: {} })); ${later}`,
  },
  { name: "forge lines that are no messages", body: `${forge} forge("[1,2"); ${later}` },
  { name: "forge wrong types", body: `${forge} forge('{"type":"result","id":"1"}'); ${later}` },
  { name: "forge null", body: `${forge} forge("null"); ${later}` },
  {
    name: "send data that is nested a million times",
    body: `${forge} forge('{"type":"notify","call":0,"method":"x","params":' + "[".repeat(1e6) + "]".repeat(1e6) + "}"); ${later}`,
  },
  {
    name: "send bytes that are no text",
    body: `require("fs").writeSync(3, Buffer.from([0xff, 0xfe, 0x00, 0x0a, 0x0a])); ${later}`,
  },
  { name: "close the channel", body: `require("fs").closeSync(3); ${later}` },
];
