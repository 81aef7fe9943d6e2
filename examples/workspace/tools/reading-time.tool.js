// A single-file tool: it runs in the sandbox, with no network and nothing of this machine in sight.
module.exports = {
  getMetadata() {
    return {
      id: "reading-time",
      name: "Reading Time",
      description: "Estimates how long a text takes to read.",
      version: "1.0.0",
      author: "Toolrack",
      category: "text",
      readOnly: true,
    };
  },

  getSchema() {
    return {
      parameters: {
        type: "object",
        properties: {
          text: { type: "string", description: "The text to read.", minLength: 1 },
          pictures: { type: "integer", description: "How many pictures are in it.", minimum: 0, default: 0 },
        },
        required: ["text"],
      },
      // Set with: toolrack settings set reading-time WORDS_PER_MINUTE=200
      environment: {
        type: "object",
        properties: {
          WORDS_PER_MINUTE: { type: "number", description: "How fast you read.", minimum: 50, default: 220 },
        },
      },
    };
  },

  getDependencies() {
    return {};
  },

  getBusinessErrors() {
    return [
      {
        code: "NOTHING_TO_READ",
        description: "The text has no words.",
        match: /no words/i,
        solution: "Send the text itself, not only punctuation.",
        retryable: false,
      },
    ];
  },

  async execute({ text, pictures }) {
    const { logger, environment, storage } = this.api;
    const words = this.countWords(text);
    if (words === 0) throw new Error("There are no words in it.");
    const seconds = Math.round((words / environment.get("WORDS_PER_MINUTE")) * 60) + pictures * 12;
    logger.info("estimated", { words, seconds });
    const texts = (storage.getItem("texts") ?? 0) + 1;
    storage.setItem("texts", texts);
    return { words, seconds, texts };
  },

  // Chinese is written without spaces: there, a character counts as a word.
  countWords(text) {
    const characters = text.match(/\p{Script=Han}/gu) ?? [];
    const words = text.replace(/\p{Script=Han}/gu, " ").match(/[\p{L}\p{N}]+/gu) ?? [];
    return characters.length + words.length;
  },
};
