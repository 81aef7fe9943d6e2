// @vitest-environment happy-dom
import { afterEach, expect, it } from "vitest";
import { copyText } from "./browser.ts";

afterEach(() => {
  document.body.innerHTML = "";
  Reflect.deleteProperty(navigator, "clipboard");
  Reflect.deleteProperty(document, "execCommand");
});

/** A page without the clipboard, as over plain HTTP. Tells where the selection was when it was copied. */
function withoutClipboard(): Element[] {
  const hosts: Element[] = [];
  Object.defineProperty(navigator, "clipboard", { value: undefined, configurable: true });
  Object.defineProperty(document, "execCommand", {
    configurable: true,
    value: () => {
      const area = document.querySelector("textarea");
      if (area?.parentElement) hosts.push(area.parentElement);
      return area?.value === "text";
    },
  });
  return hosts;
}

it("selects inside the dialog that has the focus, and gives the focus back", async () => {
  const hosts = withoutClipboard();
  document.body.innerHTML = '<div role="dialog"><button></button></div>';
  const button = document.querySelector("button")!;
  button.focus();
  expect(await copyText("text")).toBe(true);
  expect(hosts).toEqual([document.querySelector("[role=dialog]")]);
  expect(document.activeElement).toBe(button);
  expect(document.querySelector("textarea")).toBeNull();
});

it("selects in the page where there is no dialog, and says when nothing was copied", async () => {
  const hosts = withoutClipboard();
  expect(await copyText("other")).toBe(false);
  expect(hosts).toEqual([document.body]);
});
