// @vitest-environment happy-dom
import { config, mount, type VueWrapper } from "@vue/test-utils";
import { beforeAll, beforeEach, expect, it } from "vitest";
import { setLanguage } from "../../text/index.ts";
import { components } from "../../ui/index.ts";
import ChatComposer from "./ChatComposer.vue";

config.global.components = components;
beforeAll(() => setLanguage("en", { remember: false }));

beforeEach(() => sessionStorage.clear());

it("keeps what is typed with its conversation, until it is sent", async () => {
  const first = open("a");
  await first.get("textarea").setValue("for a");
  await first.setProps({ conversation: "b" });
  expect(typed(first)).toBe("");
  await first.get("textarea").setValue("for b");
  first.unmount();
  const second = open("a");
  expect(typed(second)).toBe("for a");
  await second.get("form").trigger("submit");
  expect(second.emitted("say")).toEqual([["for a"]]);
  second.unmount();
  expect(typed(open("a"))).toBe("");
  expect(typed(open("b"))).toBe("for b");
});

it("takes along what is typed while a conversation begins", async () => {
  const composer = open("");
  await composer.get("textarea").setValue("hello");
  await composer.get("form").trigger("submit");
  await composer.get("textarea").setValue("and then");
  await composer.setProps({ conversation: "new" });
  expect(typed(composer)).toBe("and then");
  await composer.setProps({ conversation: "" });
  expect(typed(composer)).toBe("");
  await composer.setProps({ conversation: "new" });
  expect(typed(composer)).toBe("and then");
});

it("gives back what was not taken, to the conversation it was for", async () => {
  const composer = open("a");
  await composer.get("textarea").setValue("refused");
  await composer.get("form").trigger("submit");
  await composer.setProps({ conversation: "b" });
  // What a component exposes is not in the type of its wrapper.
  const { restore } = composer.vm as unknown as {
    restore(said: string, conversation: string): Promise<void>;
  };
  await restore("refused", "a");
  expect(typed(composer)).toBe("");
  await composer.setProps({ conversation: "a" });
  expect(typed(composer)).toBe("refused");
});

function open(conversation: string): VueWrapper {
  return mount(ChatComposer, {
    props: { conversation, isRunning: false, disabled: false },
  });
}

function typed(composer: VueWrapper): string {
  return composer.get<HTMLTextAreaElement>("textarea").element.value;
}
