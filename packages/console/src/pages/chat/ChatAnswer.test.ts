// @vitest-environment happy-dom
import { config, mount } from "@vue/test-utils";
import { beforeAll, expect, it } from "vitest";
import { setLanguage } from "../../text/index.ts";
import { components } from "../../ui/index.ts";
import ChatAnswer from "./ChatAnswer.vue";

config.global.components = components;
beforeAll(() => setLanguage("en", { remember: false }));

it("says of an answer that was too large to be read how large it is, instead of what the server puts in its place", () => {
  const answer = mount(ChatAnswer, {
    props: {
      message: {
        id: "m",
        role: "assistant",
        status: "completed",
        unread: 73_400_320,
        parts: [{ type: "text", text: "a note for models" }],
      },
      approvals: [],
      retry: "",
      isLast: true,
    },
  });
  expect(answer.text()).toBe("This message is too large to be shown here (73.4 MB).");
});
