import { Prompt, Resource } from "@toolrack/core";

const redPixel =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";

export const simple = Prompt.define({
  name: "test_simple_prompt",
  description: "A prompt without arguments.",
  messages: () => "This is a simple prompt for testing.",
});

export const withArguments = Prompt.define({
  name: "test_prompt_with_arguments",
  description: "A prompt with arguments.",
  arguments: [
    {
      name: "arg1",
      description: "First test argument",
      required: true,
      complete: (typed) => ["paris", "park", "party"].filter((word) => word.startsWith(typed)),
    },
    { name: "arg2", description: "Second test argument", required: true },
  ],
  messages: ({ arg1, arg2 }) => `Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`,
});

export const withResource = Prompt.define({
  name: "test_prompt_with_embedded_resource",
  description: "A prompt with a resource in it.",
  arguments: [{ name: "resourceUri", description: "URI of the resource to embed", required: true }],
  messages: ({ resourceUri }) => [
    {
      role: "user",
      content: {
        type: "resource",
        resource: {
          uri: resourceUri,
          mimeType: "text/plain",
          text: "Embedded resource content for testing.",
        },
      },
    },
    { role: "user", content: { type: "text", text: "Please process the embedded resource above." } },
  ],
});

export const withImage = Prompt.define({
  name: "test_prompt_with_image",
  description: "A prompt with a picture in it.",
  messages: () => [
    { role: "user", content: { type: "image", data: redPixel, mimeType: "image/png" } },
    { role: "user", content: { type: "text", text: "Please analyze the image above." } },
  ],
});

export const asking = Prompt.define({
  name: "test_input_required_result_prompt",
  description: "A prompt that asks before it is made.",
  messages: async (_, { client, signal }) => {
    const answer = await client?.request(
      "elicitation/create",
      {
        mode: "form",
        message: "What context should the prompt use?",
        requestedSchema: {
          type: "object",
          properties: { context: { type: "string" } },
          required: ["context"],
        },
        _meta: { "toolrack/key": "user_context" },
      },
      signal,
    );
    return `Use this: ${JSON.stringify(answer)}`;
  },
});

export const text = Resource.define({
  uri: "test://static-text",
  name: "static-text",
  description: "A text that never changes.",
  mimeType: "text/plain",
  read: () => "This is the content of the static text resource.",
});

export const binary = Resource.define({
  uri: "test://static-binary",
  name: "static-binary",
  description: "A picture that never changes.",
  mimeType: "image/png",
  read: () => Buffer.from(redPixel, "base64"),
});

export const watched = Resource.define({
  uri: "test://watched-resource",
  name: "watched-resource",
  description: "A text that changes every few seconds.",
  mimeType: "text/plain",
  read: () => new Date().toISOString(),
  watch(changed) {
    const timer = setInterval(changed, 3_000);
    return () => clearInterval(timer);
  },
});

export const template = Resource.define({
  uriTemplate: "test://template/{id}/data",
  name: "template",
  description: "Data by its id.",
  mimeType: "application/json",
  read: ({ id }) => JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` }),
});
