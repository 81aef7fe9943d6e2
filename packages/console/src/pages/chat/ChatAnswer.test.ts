// @vitest-environment happy-dom
import { mount } from "@vue/test-utils";
import { expect, it } from "vitest";
import { createI18n } from "vue-i18n";
import { en } from "../../i18n/en.ts";
import ChatAnswer from "./ChatAnswer.vue";

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
    global: { plugins: [createI18n({ legacy: false, locale: "en", messages: { en } })] },
  });
  expect(answer.text()).toBe("This message is too large to be shown here (73.4 MB).");
});
