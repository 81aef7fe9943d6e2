import { expect, it } from "vitest";
import { mediaOf } from "./media-of.ts";

it("shows what came along, and never fetches what lies elsewhere", () => {
  const media = mediaOf({
    content: "",
    type: "text",
    attachments: [
      { type: "file", mime: "image/png", url: "data:image/png;base64,AAAA", filename: "a.png" },
      { type: "file", mime: "image/png", url: "https://example.com/tracker.png" },
      { type: "file", mime: "application/pdf", url: "data:application/pdf;base64,AAAA", filename: "b.pdf" },
    ],
    blocks: [
      { type: "image", data: "AAAA", mimeType: "image/png" },
      { type: "audio", data: "BBBB", mimeType: "audio/wav" },
      { type: "resource_link", uri: "javascript:alert(1)", name: "bad" },
    ],
  });
  expect(media.map(({ kind, name }) => `${kind} ${name}`)).toEqual([
    "image a.png",
    "link https://example.com/tracker.png",
    "file b.pdf",
    "audio audio/wav",
    "link bad",
  ]);
  expect(media.at(-1)?.url).toBe("");
});
