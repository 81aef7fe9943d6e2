import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { BusinessError, Tool, type ToolCallRecord, ToolRegistry, type ToolResult } from "@toolrack/core";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { temporaryFolder } from "../testing/temporary-folder.ts";
import { toTest } from "./recording.ts";
import { secretReference } from "./saved-call.ts";
import { readTestFile, saveTest } from "./test-file.ts";
import { type EndedCall, UnwritableCall } from "./writer.ts";

const KNOWN = "Kq7-known-Secret!42";
const given = { type: "object", properties: { value: {}, inner: {}, fails: { type: "boolean" } } } as const;

/** A rack whose tools give back what they are given, and that notes its records as the store would. */
function makeRack() {
  const registry = new ToolRegistry({ secrets: () => [KNOWN] });
  const records: { record: ToolCallRecord; result: ToolResult }[] = [];
  registry.subscribe((event) => {
    if (event.type === "record") records.push(event);
  });
  const answer = (value: unknown, fails: unknown) => {
    if (fails === true) throw new BusinessError(`cannot take ${JSON.stringify(value)}`);
    return value;
  };
  registry.register(
    Tool.define({
      name: "inner",
      parameters: given,
      metadata: { readOnly: true },
      execute: ({ input }) => answer(input.value, input.fails),
    }),
  );
  registry.register(
    Tool.define({
      name: "outer",
      parameters: given,
      execute: async ({ input, registry: rack }) => {
        const inner = await rack.execute("inner", input.inner);
        return answer({ got: inner.structured ?? inner.content, own: input.value }, input.fails);
      },
    }),
  );
  const ended = ({ record, result }: (typeof records)[number]): EndedCall => ({ ...record, result });
  return {
    registry,
    async call(input: Record<string, unknown>) {
      records.length = 0;
      await registry.execute("outer", input);
      const outer = records.find(({ record }) => record.depth === 0)!;
      return toTest(ended(outer), records.filter(({ record }) => record.depth === 1).map(ended), registry);
    },
  };
}

/** Everything in a value: its texts, numbers and keys. */
function leavesOf(value: unknown): string[] {
  if (typeof value !== "object" || value === null) return [String(value)];
  return Object.entries(value).flatMap(([key, item]) => [key, ...leavesOf(item)]);
}

const secretNames = fc.constantFrom(
  "password",
  "apiKey",
  "authorization",
  "client_secret",
  "token",
  "Cookie",
);
const plainNames = fc.constantFrom("a", "name", "items", "url", "note");
/** Not a part of any other word of these tests. */
const secretTexts = fc
  .string({ unit: fc.constantFrom(..."ABCDEFGHJKMNPQ23456789"), minLength: 8, maxLength: 24 })
  .map((text) => `z9${text}`);

/** A value with the secret in some places where it is known to be one. */
function valueWith(secret: string): fc.Arbitrary<unknown> {
  const hidden = fc.oneof(
    secretNames.map((name) => ({ [name]: secret })),
    secretNames.map((name) => ({ [name]: { nested: [secret] } })),
    fc.constant(`https://user:${secret}@example.com/x?y=1`),
    fc.constant(`https://example.com/?access_token=${secret}`),
    fc.constant(`curl -H 'Authorization: Bearer ${secret}'`),
    // Here it is known only by its other places.
    fc.constant({ q: secret }),
    fc.constant({ note: `it is ${KNOWN}, yes` }),
    fc.constant([KNOWN.toLowerCase()]),
    secretNames.map((name) => ({ [name]: secret, note: `the same again: ${secret}`, list: [secret] })),
  );
  const plain = fc.oneof(fc.string(), fc.integer(), fc.boolean(), fc.constant(null));
  const { tree } = fc.letrec((tie) => ({
    tree: fc.oneof({ maxDepth: 4, depthIdentifier: "tree" }, hidden, plain, tie("list"), tie("record")),
    list: fc.array(tie("tree"), { maxLength: 3 }),
    record: fc.dictionary(plainNames, tie("tree"), { maxKeys: 3 }),
  }));
  return tree;
}

describe("a test made of a record", () => {
  it("has none of the secrets in arguments, results and errors, or is refused with the path", async () => {
    const rack = makeRack();
    const directory = temporaryFolder();
    let written = 0;
    const cases = secretTexts.chain((secret) =>
      fc.record({
        secret: fc.constant(secret),
        value: valueWith(secret),
        inner: fc.record({ value: valueWith(secret), fails: fc.boolean() }),
        fails: fc.boolean(),
        // The secret is always known by one place at least.
        password: fc.constant(secret),
      }),
    );
    await fc.assert(
      fc.asyncProperty(cases, async ({ secret, password, ...input }) => {
        const value = { mine: input.value, password };
        let recorded: Awaited<ReturnType<typeof rack.call>>;
        try {
          recorded = await rack.call({ ...input, value });
        } catch (thrown) {
          expect(thrown).toBeInstanceOf(UnwritableCall);
          expect((thrown as UnwritableCall).path).not.toBe("");
          expect((thrown as UnwritableCall).message).not.toContain(secret);
          return;
        }
        const saved = await saveTest(directory, recorded, { isNamed: false, file: `f${written++}` });
        const text = await readFile(join(directory, saved.file), "utf8");
        for (const hidden of [secret, KNOWN]) {
          expect(text.toLowerCase()).not.toContain(hidden.toLowerCase());
          for (const leaf of leavesOf(parse(text)))
            expect(leaf.toLowerCase()).not.toContain(hidden.toLowerCase());
        }
        // What was written can be read.
        expect((await readTestFile(directory, saved.file)).failures).toEqual([]);
      }),
      { numRuns: 150 },
    );
    expect(written).toBeGreaterThan(50);
  });

  it("is refused with the path where no text can stand for a secret", async () => {
    const rack = makeRack();
    const pathOf = (input: Record<string, unknown>) =>
      rack.call(input).then(
        () => "written",
        (thrown) => (thrown instanceof UnwritableCall ? thrown.path : String(thrown)),
      );
    expect(await pathOf({ value: { [KNOWN]: 1 } })).toBe("arguments/value");
    const bytes = { content: [{ type: "image", data: "", mimeType: "image/png" }] };
    expect(await pathOf({ value: 1, inner: { value: bytes } })).toBe("written");
    // Three characters cannot be looked for in texts.
    expect(await pathOf({ value: { password: "abc", note: "abc" } })).toBe("arguments/value/note");
    rack.registry.update("outer", {
      parameters: { type: "object", properties: { pin: { type: "integer" }, secret: { type: "integer" } } },
    });
    expect(await pathOf({ secret: 123_456 })).toBe("arguments/secret");
  });

  it("keeps literal references apart from its own", async () => {
    const rack = makeRack();
    const { test } = await rack.call({ value: secretReference("MINE"), inner: { value: 1 } });
    expect(test.arguments).toMatchObject({ value: `$${secretReference("MINE")}` });
  });
});
