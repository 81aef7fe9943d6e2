import { Tool } from "@toolrack/core";

const nothing = { type: "object", properties: {} } as const;

interface Sampled {
  readonly content: { readonly text?: string };
}

export const sampling = Tool.define({
  name: "test_sampling",
  description: "Asks the client's model.",
  parameters: { type: "object", properties: { prompt: { type: "string" } }, required: ["prompt"] },
  execute: async ({ input, client, signal }) => {
    const { prompt } = input as { prompt: string };
    const params = { messages: [{ role: "user", content: { type: "text", text: prompt } }], maxTokens: 100 };
    if (client === undefined) throw new Error("There is no client to ask.");
    const answer = (await client.request("sampling/createMessage", params, signal)) as Sampled;
    return `LLM response: ${answer.content.text}`;
  },
});

export const elicitation = Tool.define({
  name: "test_elicitation",
  description: "Asks the person at the client.",
  parameters: { type: "object", properties: { message: { type: "string" } }, required: ["message"] },
  execute: async ({ input, elicit }) => {
    const { message } = input as { message: string };
    const { action, content } = await elicit({
      message,
      schema: {
        type: "object",
        properties: {
          username: { type: "string", description: "User's response" },
          email: { type: "string", description: "User's email address" },
        },
        required: ["username", "email"],
      },
    });
    return `User response: action=${action}, content=${JSON.stringify(content)}`;
  },
});

export const defaults = Tool.define({
  name: "test_elicitation_sep1034_defaults",
  description: "Asks with values that are filled in.",
  parameters: nothing,
  execute: async ({ elicit }) => {
    const { action, content } = await elicit({
      message: "Please review and update the form fields with defaults",
      schema: {
        type: "object",
        properties: {
          name: { type: "string", default: "John Doe" },
          age: { type: "integer", default: 30 },
          score: { type: "number", default: 95.5 },
          status: { type: "string", enum: ["active", "inactive", "pending"], default: "active" },
          verified: { type: "boolean", default: true },
        },
      },
    });
    return `Elicitation completed: action=${action}, content=${JSON.stringify(content)}`;
  },
});

export const choices = Tool.define({
  name: "test_elicitation_sep1330_enums",
  description: "Asks with choices of all kinds.",
  parameters: nothing,
  execute: async ({ elicit }) => {
    const titled = ["First", "Second", "Third"].map((title, index) => ({
      const: `value${index + 1}`,
      title: `${title} Option`,
    }));
    const options = ["option1", "option2", "option3"];
    const { action, content } = await elicit({
      message: "Please select options from the enum fields",
      schema: {
        type: "object",
        properties: {
          untitledSingle: { type: "string", enum: options },
          titledSingle: { type: "string", oneOf: titled },
          legacyEnum: {
            type: "string",
            enum: ["opt1", "opt2", "opt3"],
            enumNames: ["Option One", "Option Two", "Option Three"],
          },
          untitledMulti: { type: "array", items: { type: "string", enum: options } },
          titledMulti: { type: "array", items: { anyOf: titled } },
        },
      },
    });
    return `Elicitation completed: action=${action}, content=${JSON.stringify(content)}`;
  },
});

export const streaming = Tool.define({
  name: "test_streaming_elicitation",
  description: "Reports and asks.",
  parameters: nothing,
  execute: async ({ elicit, progress }) => {
    progress(1, 2);
    const { action } = await elicit("Go on?");
    return `Answered: ${action}`;
  },
});

export const missingCapability = Tool.define({
  name: "test_missing_capability",
  description: "Needs a model at the client.",
  parameters: nothing,
  execute: async ({ client, signal }) => {
    const params = { messages: [{ role: "user", content: { type: "text", text: "Hello" } }], maxTokens: 10 };
    await client?.request("sampling/createMessage", params, signal);
    return "The client has a model.";
  },
});
