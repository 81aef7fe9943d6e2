import { describe, expect, it } from "vitest";
import { DeltaMerger, readChunk } from "./answer-chunks.ts";
import { readSse } from "./answer-reader.ts";
import { calledIn } from "./model.ts";

const piece = (delta: object, finish_reason: string | null = null): object => ({
  choices: [{ index: 0, delta, finish_reason }],
});
const calls = (...tool_calls: object[]) => piece({ tool_calls });

function merged(chunks: readonly object[]): DeltaMerger {
  const merger = new DeltaMerger();
  for (const chunk of chunks) merger.add(readChunk(chunk));
  return merger;
}

const named = (merger: DeltaMerger) =>
  merger.calls().map((call) => [call.id, calledIn(call).name, calledIn(call).written]);

describe("pieces of calls", () => {
  it("belong together by index, however they are mixed", () => {
    const merger = merged([
      calls({ index: 0, id: "a", function: { name: "read", arguments: "" } }),
      calls({ index: 1, id: "b", function: { name: "list", arguments: '{"p' } }),
      calls({ index: 0, function: { arguments: '{"x":' } }, { index: 1, function: { arguments: '":1}' } }),
      calls({ index: 0, function: { arguments: "2}" } }),
    ]);
    expect(named(merger)).toEqual([
      ["a", "read", '{"x":2}'],
      ["b", "list", '{"p":1}'],
    ]);
  });

  it("are told apart where every call has the same index", () => {
    const merger = merged([
      calls({ index: 0, id: "a", function: { name: "read", arguments: "{}" } }),
      calls({ index: 0, id: "b", function: { name: "read", arguments: '{"y":1}' } }),
    ]);
    expect(named(merger)).toEqual([
      ["a", "read", "{}"],
      ["b", "read", '{"y":1}'],
    ]);
  });

  it("are put together without an index, by ids or by their order", () => {
    expect(
      named(
        merged([
          calls({ id: "a", function: { name: "read", arguments: '{"x"' } }),
          calls({ function: { arguments: ":1}" } }),
          calls({ id: "b", function: { name: "list", arguments: "{}" } }),
        ]),
      ),
    ).toEqual([
      ["a", "read", '{"x":1}'],
      ["b", "list", "{}"],
    ]);
    const anonymous = merged([
      calls({ function: { name: "read", arguments: "{}" } }),
      calls({ function: { name: "list", arguments: "{}" } }),
    ]);
    expect(anonymous.calls().map((call) => calledIn(call).name)).toEqual(["read", "list"]);
  });

  it("of custom tools are put together as such, beside those of functions", () => {
    const merger = merged([
      calls({ index: 0, id: "a", type: "custom", custom: { name: "grep", input: "" } }),
      calls({ index: 0, custom: { input: '{"not' } }, { index: 1, id: "b", function: { name: "read" } }),
      calls({ index: 0, custom: { input: ' json"}' } }, { index: 1, function: { arguments: "{}" } }),
    ]);
    expect(merger.calls()).toEqual([
      { id: "a", type: "custom", custom: { name: "grep", input: '{"not json"}' } },
      { id: "b", type: "function", function: { name: "read", arguments: "{}" } },
    ]);
    const whole = merged([
      calls({ id: "a", type: "custom", custom: { name: "grep", input: "{}" }, extra: 1 }),
    ]);
    expect(whole.calls()).toEqual([
      { id: "a", type: "custom", custom: { name: "grep", input: "{}" }, extra: 1 },
    ]);
  });

  it("get ids where the provider gave none, or the same twice", () => {
    const ids = merged([
      calls({ index: 0, function: { name: "read", arguments: "{}" } }),
      calls({ index: 1, id: "x", function: { name: "read", arguments: "{}" } }),
      calls({ index: 2, id: "x", function: { name: "read", arguments: "{}" } }),
    ])
      .calls()
      .map(({ id }) => id);
    expect(new Set(ids).size).toBe(3);
    expect(ids[1]).toBe("x");
    expect(ids[0]).toMatch(/^call_[0-9a-f]{32}$/);
  });

  it("may repeat the name, have arguments as an object, or come in the older form", () => {
    expect(
      named(
        merged([
          calls({ index: 0, id: "a", function: { name: "read", arguments: '{"x' } }),
          calls({ index: 0, id: "a", function: { name: "read", arguments: '":1}' } }),
        ]),
      ),
    ).toEqual([["a", "read", '{"x":1}']]);
    expect(
      named(merged([calls({ index: 0, id: "a", function: { name: "read", arguments: { x: 1 } } })])),
    ).toEqual([["a", "read", '{"x":1}']]);
    const old = merged([
      piece({ function_call: { name: "read", arguments: '{"x"' } }),
      piece({ function_call: { arguments: ":1}" } }, "function_call"),
    ]);
    expect(old.calls()[0]?.function).toEqual({ name: "read", arguments: '{"x":1}' });
  });

  it("are told apart where all have the index 0 and no id, once the arguments before are whole", () => {
    const merger = merged([
      calls({ index: 0, function: { name: "echo", arguments: '{"text":' } }),
      calls({ index: 0, function: { name: "echo", arguments: '"a"}' } }),
      calls({ index: 0, function: { name: "echo", arguments: "" } }),
      calls({ index: 0, function: { name: "echo", arguments: '{"text":"b"}' } }),
      calls({ index: 0, function: { name: "list", arguments: {} } }),
    ]);
    expect(named(merger).map(([, ...call]) => call)).toEqual([
      ["echo", '{"text":"a"}'],
      ["echo", '{"text":"b"}'],
      ["list", "{}"],
    ]);
  });

  it("keep what else the provider says of a call and of its thoughts", () => {
    const signed = { google: { thought_signature: "c2lnbmVk" } };
    const merger = merged([
      piece({ reasoning: "I ", reasoning_details: [{ index: 0, type: "reasoning.text", text: "I " }] }),
      piece({ reasoning_details: [{ index: 0, type: "reasoning.text", text: "think", signature: "x" }] }),
      piece({ reasoning_details: [{ index: 1, type: "reasoning.encrypted", data: "abc" }] }),
      calls({
        index: 0,
        id: "a",
        type: "function",
        extra_content: signed,
        function: { name: "read", arguments: "{}" },
      }),
    ]);
    expect(merger.calls()).toEqual([
      { id: "a", type: "function", function: { name: "read", arguments: "{}" }, extra_content: signed },
    ]);
    expect(merger.reasoningField).toBe("reasoning");
    expect(merger.reasoningDetails).toEqual([
      { index: 0, type: "reasoning.text", text: "I think", signature: "x" },
      { index: 1, type: "reasoning.encrypted", data: "abc" },
    ]);
  });

  it("that are nothing of the kind are passed over", () => {
    const merger = merged([
      {},
      { choices: [] },
      { choices: [{ delta: null }] },
      piece({ tool_calls: [null, "x"] }),
      piece({ tool_calls: null, content: 5 }),
    ]);
    expect(merger.calls()).toEqual([]);
    expect(merger.text).toBe("");
    expect([merger.text, merger.begun]).toEqual(["", 0]);
  });
});

it("takes content that is a list of parts, thoughts apart from text", () => {
  const chunks = [
    piece({ content: [{ type: "thinking", thinking: [{ type: "text", text: "Hm" }] }] }),
    piece({ content: [{ type: "thinking", thinking: "." }, null, { type: "reference", text: "no" }] }),
    piece({
      content: [
        { type: "text", text: "It is " },
        { type: "text", text: "42" },
      ],
    }),
    piece({ content: "." }, "stop"),
  ];
  const thought = chunks.map((chunk) => readChunk(chunk).reasoning).join("");
  expect([thought, merged(chunks).text]).toEqual(["Hm.", "It is 42."]);
});

describe("every chunking of the same stream", () => {
  const answer = {
    text: "Ich schaue nach 🔎 – 你好.",
    calls: [
      { id: "call_1", name: "internal_file_read", arguments: '{"path":"a \\"b\\"/ü.txt","lines":[1,2]}' },
      { id: "call_2", name: "internal_file_list", arguments: "{}" },
      { id: "call_3", name: "搜索", arguments: '{"查询":"上海天气 🌧"}' },
    ],
  };

  it("gives the same text and the same calls", async () => {
    const random = mulberry(20_261_115);
    for (let round = 0; round < 300; round++) {
      const text = streamOf(answer, random);
      const merger = await read(cut(new TextEncoder().encode(text), random));
      expect(merger.text).toBe(answer.text);
      expect(named(merger)).toEqual(answer.calls.map(({ id, name, arguments: args }) => [id, name, args]));
      expect(merger.finishReason).toBe("tool_calls");
      expect(merger.usage?.total_tokens).toBe(12);
    }
  });

  it("byte by byte too, with any line ends, and without an end", async () => {
    const source = streamOf(answer, mulberry(1));
    for (const lineEnd of ["\n", "\r\n", "\r"]) {
      const bytes = new TextEncoder().encode(source.replaceAll("\n", lineEnd).trimEnd());
      const merger = await read([...bytes].map((byte) => Uint8Array.of(byte)));
      expect(merger.text).toBe(answer.text);
      expect(named(merger)).toHaveLength(3);
    }
  });
});

type Random = () => number;

/** The answer as a provider might stream it: deltas of any size, calls one after the other or mixed, comments between. */
function streamOf(
  { text, calls: wanted }: { text: string; calls: { id: string; name: string; arguments: string }[] },
  random: Random,
): string {
  const chunks: object[] = fragments(text, random).map((content) => piece({ content }));
  const queues = wanted.map(({ id, name, arguments: args }, index) => [
    { index, id, type: "function", function: { name, arguments: "" } },
    ...fragments(args, random).map((part) => ({ index, function: { arguments: part } })),
  ]);
  const isMixed = random() < 0.5;
  // Calls are begun in their order; what follows may be mixed.
  if (isMixed) for (const queue of queues) chunks.push(calls(queue.shift()!));
  while (queues.some((queue) => queue.length > 0)) {
    const open = queues.filter((queue) => queue.length > 0);
    chunks.push(calls((isMixed ? open[Math.floor(random() * open.length)]! : open[0]!).shift()!));
  }
  chunks.push(piece({}, "tool_calls"), {
    choices: [],
    usage: { prompt_tokens: 5, completion_tokens: 7, total_tokens: 12 },
  });
  const events = chunks.map(
    (chunk) => `${random() < 0.1 ? ": alive\n\n" : ""}data: ${JSON.stringify(chunk)}\n\n`,
  );
  return `${events.join("")}data: [DONE]\n\n`;
}

function fragments(text: string, random: Random): string[] {
  const parts: string[] = [];
  const characters = [...text];
  while (characters.length > 0) parts.push(characters.splice(0, 1 + Math.floor(random() * 6)).join(""));
  return parts;
}

function cut(bytes: Uint8Array, random: Random): Uint8Array[] {
  const pieces: Uint8Array[] = [];
  const largest = 1 + Math.floor(random() * 200);
  for (let at = 0; at < bytes.length; ) {
    const size = 1 + Math.floor(random() * largest);
    pieces.push(bytes.subarray(at, at + size));
    at += size;
  }
  return pieces;
}

async function read(pieces: readonly Uint8Array[]): Promise<DeltaMerger> {
  const merger = new DeltaMerger();
  for await (const data of readSse(ReadableStream.from(pieces) as ReadableStream<Uint8Array>)) {
    if (data !== "[DONE]") merger.add(readChunk(JSON.parse(data)));
  }
  return merger;
}

/** The same numbers every time, so that a failure can be looked at. */
function mulberry(seed: number): Random {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
