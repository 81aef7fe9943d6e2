import { Tool } from "@toolrack/core";

const nothing = { type: "object", properties: {} } as const;
const redPixel =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
const silence = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAAAAA==";

export const simpleText = Tool.define({
  name: "test_simple_text",
  description: "Answers with a text.",
  parameters: nothing,
  execute: async () => "This is a simple text response for testing.",
});

export const image = Tool.define({
  name: "test_image_content",
  description: "Answers with a picture.",
  parameters: nothing,
  execute: async () => ({ content: [{ type: "image", data: redPixel, mimeType: "image/png" }] }),
});

export const audio = Tool.define({
  name: "test_audio_content",
  description: "Answers with a sound.",
  parameters: nothing,
  execute: async () => ({ content: [{ type: "audio", data: silence, mimeType: "audio/wav" }] }),
});

export const embeddedResource = Tool.define({
  name: "test_embedded_resource",
  description: "Answers with a resource.",
  parameters: nothing,
  execute: async () => ({
    content: [
      {
        type: "resource",
        resource: {
          uri: "test://embedded-resource",
          mimeType: "text/plain",
          text: "This is an embedded resource content.",
        },
      },
    ],
  }),
});

export const mixed = Tool.define({
  name: "test_multiple_content_types",
  description: "Answers with a text, a picture and a resource.",
  parameters: nothing,
  execute: async () => ({
    content: [
      { type: "text", text: "Multiple content types test:" },
      { type: "image", data: redPixel, mimeType: "image/png" },
      {
        type: "resource",
        resource: {
          uri: "test://mixed-content-resource",
          mimeType: "application/json",
          text: JSON.stringify({ test: "data", value: 123 }),
        },
      },
    ],
  }),
});

export const failing = Tool.define({
  name: "test_error_handling",
  description: "Always fails.",
  parameters: nothing,
  execute: async () => {
    throw new Error("This tool intentionally returns an error for testing");
  },
});
