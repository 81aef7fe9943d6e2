import { expect, it } from "vitest";
import { readEvents } from "./events.ts";

it("reads events however the network cuts them, in the middle of a character too", async () => {
  const bytes = new TextEncoder().encode(
    'id: e-1\nevent: ready\ndata: {"at":1}\n\n: alive\n\nid: e-2\nevent: 调用\ndata: {"name":"问候"}\n\n',
  );
  for (let size = 1; size < 12; size++) {
    const chunks = Array.from({ length: Math.ceil(bytes.length / size) }, (_, index) =>
      bytes.slice(index * size, (index + 1) * size),
    );
    expect(await all(chunks)).toEqual([
      { event: "ready", id: "e-1", data: '{"at":1}' },
      { event: "调用", id: "e-2", data: '{"name":"问候"}' },
    ]);
  }
});

it("closes the connection when its reader stops", async () => {
  let closed = false;
  const body = new ReadableStream<Uint8Array>({
    pull: (controller) => controller.enqueue(new TextEncoder().encode("event: a\ndata: 1\n\n")),
    cancel: () => {
      closed = true;
    },
  });
  for await (const _ of readEvents(body)) break;
  expect(closed).toBe(true);
});

async function all(chunks: Uint8Array[]): Promise<unknown[]> {
  const events: unknown[] = [];
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(chunk);
      controller.close();
    },
  });
  for await (const event of readEvents(body)) events.push(event);
  return events;
}
