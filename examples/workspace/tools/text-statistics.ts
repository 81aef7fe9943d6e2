import { Tool } from "@toolrack/core";

export const textStatistics = Tool.define({
  name: "text_statistics",
  description: "Counts the characters, words and lines of a text.",
  parameters: {
    type: "object",
    properties: {
      text: { type: "string", description: "The text to count." },
      locale: { type: "string", default: "en", description: "Language of the text, such as en or zh." },
    },
    required: ["text"],
  },
  metadata: { category: "text", readOnly: true },
  execute: async ({ input }) => {
    const segmenter = new Intl.Segmenter(input.locale ?? "en", { granularity: "word" });
    const words = [...segmenter.segment(input.text)].filter((segment) => segment.isWordLike).length;
    return { characters: [...input.text].length, words, lines: input.text.split("\n").length };
  },
});
