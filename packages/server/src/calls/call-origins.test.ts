import { Tool, type ToolContext, ToolRegistry } from "@toolrack/core";
import { expect, it } from "vitest";
import { masterGrant } from "../access/grants.ts";
import { currentCall } from "../helpers/current-call.ts";
import { CallBook } from "./call-book.ts";

function makeRack() {
  const registry = new ToolRegistry();
  const book = new CallBook(registry);
  const seen: (string | undefined)[] = [];
  let later: Promise<unknown> = Promise.resolve();
  const leaf = ({ callId }: ToolContext) => {
    seen.push(book.firstCallerOf(callId));
    return "";
  };
  registry.register(Tool.define({ name: "leaf", parameters: { type: "object" }, execute: leaf }));
  registry.register(
    Tool.define({
      name: "outer",
      parameters: { type: "object" },
      execute: async (context) => {
        await context.call("leaf", {}, { caller: "somebody else" });
        currentCall.run(context, () => {
          later = new Promise((resolve) => setTimeout(resolve, 5)).then(() =>
            registry.executeDetached(context, "leaf", {}, { caller: "a timer" }),
          );
        });
        return "";
      },
    }),
  );
  return { registry, book, seen, later: () => later };
}

it("knows who is behind a call that a tool makes, whatever the tool says, also from a timer after its end", async () => {
  const { registry, seen, later } = makeRack();
  await registry.execute("outer", {}, { caller: "ann_1" });
  await later();
  await registry.execute("leaf", {}, { caller: "bob_2" });
  expect(seen).toEqual(["ann_1", "ann_1", "bob_2"]);
});

it("says that it does not know, rather than anything wrong, when the beginning is long forgotten", async () => {
  const { registry, seen, book } = makeRack();
  let context: ToolContext | undefined;
  registry.register(
    Tool.define({
      name: "first",
      parameters: { type: "object" },
      execute: (given) => {
        context = given;
        return "";
      },
    }),
  );
  await registry.execute("first", {}, { caller: "ann_1" });
  for (let n = 0; n < 10_001; n++) await registry.execute("nothing", {}, { caller: "crowd" });
  expect(book.firstCallerOf(context!.callId)).toBeUndefined();
  await currentCall.run(context!, () => registry.executeDetached(context!, "leaf", {}, { caller: "http" }));
  expect(seen).toEqual([undefined]);
});

it("knows whether an admin is behind a call, and takes nobody for one who is forgotten", async () => {
  const { registry, book } = makeRack();
  const seen: boolean[] = [];
  const tell = ({ callId }: ToolContext) => {
    seen.push(book.isAdmin(callId));
    return "";
  };
  registry.register(Tool.define({ name: "tell", parameters: { type: "object" }, execute: tell }));
  const outer = async ({ call }: ToolContext) => (await call("tell", {}, { caller: "http" })).content;
  registry.register(Tool.define({ name: "asks", parameters: { type: "object" }, execute: outer }));
  for (const [callId, admin] of [
    ["one", false],
    ["two", true],
  ] as const) {
    const call = {
      callId,
      toolName: "asks",
      displayName: "asks",
      sessionID: "",
      caller: "ann_1",
      timestamp: 1,
    };
    book.enter(call, { grant: { ...masterGrant, caller: "ann_1", admin } });
    await registry.execute("asks", {}, { callId, caller: "ann_1" });
  }
  await registry.execute("tell", {}, { caller: "cli" });
  expect(seen).toEqual([false, true, true]);
  expect(book.isAdmin("never seen")).toBe(false);
});
