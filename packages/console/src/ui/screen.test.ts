// @vitest-environment happy-dom
import { mount } from "@vue/test-utils";
import { afterEach, beforeEach, expect, it } from "vitest";
import { defineComponent, h } from "vue";
import { useShortcuts } from "./screen.ts";

let ran: string[];
let page: ReturnType<typeof mount>;

beforeEach(() => {
  ran = [];
  const note = (name: string) => () => {
    ran.push(name);
  };
  const Page = defineComponent({
    setup() {
      useShortcuts({
        "/": note("search"),
        "g c": note("calls"),
        "mod+k": note("palette"),
        enter: note("open"),
      });
      return () => h("div", [h("input"), h("button"), h("div", { role: "dialog" }, [h("i")])]);
    },
  });
  page = mount(Page, { attachTo: document.body });
});
afterEach(() => page.unmount());

it("hears single keys, keys after each other, and keys with Ctrl or Command", () => {
  press("button", { key: "/" });
  press("button", { key: "g" });
  press("button", { key: "c" });
  press("button", { key: "k", ctrlKey: true });
  press("button", { key: "K", metaKey: true });
  expect(ran).toEqual(["search", "calls", "palette", "palette"]);
});

it("leaves letters to the field that somebody types in", () => {
  press("input", { key: "/" });
  press("input", { key: "Enter" });
  press("input", { key: "k", ctrlKey: true });
  expect(ran).toEqual(["palette"]);
});

it("does nothing to a page that a dialog stands before, but hears keys with Ctrl or Command", () => {
  press("i", { key: "/" });
  press("i", { key: "k", ctrlKey: true });
  expect(ran).toEqual(["palette"]);
});

it("leaves every key to an input method that is composing a word", () => {
  press("button", { key: "Enter", isComposing: true });
  press("button", { key: "Enter", keyCode: 229 });
  expect(ran).toEqual([]);
});

function press(where: string, init: KeyboardEventInit): void {
  page
    .get(where)
    .element.dispatchEvent(new KeyboardEvent("keydown", { bubbles: true, composed: true, ...init }));
}
