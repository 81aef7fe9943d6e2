import type { JsonSchemaObject } from "@toolrack/core";

export const text: JsonSchemaObject = { type: "string" };
const moment: JsonSchemaObject = { type: "number", description: "Milliseconds since the epoch." };
export const model: JsonSchemaObject = {
  type: "string",
  maxLength: 200,
  description: "As `GET /v1/models` lists it.",
};
export const title: JsonSchemaObject = { type: "string", maxLength: 500 };

export const sessionSchema: JsonSchemaObject = {
  type: "object",
  properties: {
    id: text,
    title: { ...text, description: "The beginning of the first message, unless it was given one." },
    model: { ...text, description: "Empty for the usual one." },
    expert: text,
    system: { ...text, description: "What the model is told at the beginning." },
    owner: { ...text, description: "The id of the token that it belongs to." },
    createdAt: moment,
    updatedAt: moment,
    running: { type: "boolean", description: "Whether a message is being answered." },
  },
  required: ["id", "title", "model", "owner", "createdAt", "updatedAt", "running"],
};

export const messageSchema: JsonSchemaObject = {
  type: "object",
  properties: {
    id: text,
    sessionId: text,
    position: { type: "integer" },
    role: { enum: ["user", "assistant"] },
    status: { enum: ["running", "completed", "stopped", "interrupted", "error"] },
    createdAt: moment,
    updatedAt: moment,
    content: { description: "Of a user's message: text, or parts as Chat Completions has them." },
    provider: text,
    model: text,
    unread: {
      type: "integer",
      description:
        "Set when the message is too large to be read: its bytes. What it says is a note about that.",
    },
    parts: {
      type: "array",
      description:
        "Of an answer: `text`, `reasoning`, `refusal` and `tool` parts; a `tool` part has the call's state.",
      items: { type: "object" },
    },
    usage: { type: "object" },
    end: {
      type: "object",
      description: "Why the turn ended: `reason`, and `message` and `code` where there are any.",
    },
  },
  required: ["id", "sessionId", "position", "role", "status", "createdAt", "updatedAt"],
};

export const contentSchema: JsonSchemaObject = {
  anyOf: [
    { type: "string", minLength: 1 },
    {
      type: "array",
      minItems: 1,
      items: { type: "object", properties: { type: text }, required: ["type"], additionalProperties: true },
    },
  ],
  description: 'Text, or `{type: "text"}` and `{type: "image_url"}` parts as Chat Completions has them.',
};
