import { once } from "node:events";
import { connect, createServer } from "node:net";
import { expect, it } from "vitest";
import { WorkerChannel } from "./worker-channel.ts";

/** A channel, and the end of it that a worker has. */
async function channel(longest: number) {
  const stack = new AsyncDisposableStack();
  const server = createServer().listen(0, "127.0.0.1");
  stack.defer(() => void server.close());
  await once(server, "listening");
  const accepted = once(server, "connection");
  // Its address is no text when it listens at a port.
  const worker = connect((server.address() as { readonly port: number }).port, "127.0.0.1");
  const [socket] = await accepted;
  const heard: unknown[] = [];
  const host = new WorkerChannel(socket, longest, {
    onMessage: (message, bytes) => heard.push([message.type, bytes]),
    onInvalid: () => heard.push("nonsense"),
    onTooLong: () => heard.push("too long"),
  });
  stack.defer(() => {
    worker.destroy();
    socket.destroy();
  });
  const say = async (text: string) => {
    const before = socket.bytesRead;
    worker.write(text);
    while (socket.bytesRead < before + text.length) await once(socket, "data");
  };
  return { heard, host, say, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

it("tells once of a message that is too long, before it has ended, and of nothing after it", async () => {
  await using worker = await channel(100);
  const ready = `${JSON.stringify({ type: "ready" })}\n`;
  await worker.say(ready);
  await worker.say(`${ready}${"x".repeat(101)}`);
  await worker.say("x".repeat(1_000));
  await worker.say(`\n${ready}`);
  expect(worker.heard).toEqual([["ready", 16], ["ready", 16], "too long"]);
});

it("takes longer messages once it may", async () => {
  await using worker = await channel(10);
  worker.host.longest = 1_000;
  await worker.say(`${"x".repeat(500)}\n`);
  expect(worker.heard).toEqual(["nonsense"]);
});
