import { once } from "node:events";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { afterEach, describe, expect, it } from "vitest";
import type { AnswerPiece } from "./answer-chunks.ts";
import type { ModelEndpoint } from "./model.ts";
import { streamCompletion } from "./provider.ts";
import { Providers } from "./providers.ts";

/** Answers the request with this number, counted from 0 over all connections. `whole` is its head and its body. */
type Serve = (socket: Socket, asked: number, whole: string) => unknown;

let server: Server | undefined;
const sockets = new Set<Socket>();
afterEach(() => {
  for (const socket of sockets) socket.destroy();
  sockets.clear();
  server?.close();
});

/** A provider that writes its responses byte by byte as the test wants them. */
async function endpointOf(serve: Serve, idleSeconds = 60): Promise<ModelEndpoint> {
  let asked = 0;
  server = createServer((socket) => {
    sockets.add(socket);
    let text = "";
    socket.on("error", () => {});
    socket.on("data", (bytes) => {
      text += bytes;
      const length = Number(/content-length: (\d+)/i.exec(text)?.[1]);
      const end = text.indexOf("\r\n\r\n") + 4;
      if (end < 4 || text.length < end + length) return;
      const whole = text;
      text = "";
      serve(socket, asked++, whole);
    });
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  // A server that listens on a port has such an address.
  const { port } = server.address() as AddressInfo;
  const test = { baseURL: `http://127.0.0.1:${port}/v1`, apiKey: "k", idleSeconds, models: ["m"] };
  return new Providers({ providers: { test }, environment: {}, readSecret: async () => "" }).resolve("m");
}

async function read(endpoint: ModelEndpoint): Promise<string> {
  let text = "";
  const onPiece = (piece: AnswerPiece) => {
    text += piece.text ?? "";
  };
  await streamCompletion(
    endpoint,
    { model: "m" },
    { signal: new AbortController().signal, retries: 0, onPiece },
  );
  // The client can use the connection again a moment later.
  await pause(5);
  return text;
}

function answer(content: string): Buffer {
  const chunk = { choices: [{ index: 0, delta: { content }, finish_reason: "stop" }] };
  const body = `data: ${JSON.stringify(chunk)}\n\ndata: [DONE]\n\n`;
  const head = `HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n`;
  return Buffer.from(head + body);
}

describe("a connection that was kept open", () => {
  it("is used again when a tool or a person took some seconds", { timeout: 60_000 }, async () => {
    const endpoint = await endpointOf((socket, asked) => socket.write(answer(`${asked}`)));
    expect(await read(endpoint)).toBe("0");
    const closed = once([...sockets][0]!, "close");
    expect(await Promise.race([closed, pause(6_000, "still open")])).toBe("still open");
    expect(await read(endpoint)).toBe("1");
    expect(sockets.size).toBe(1);
  });

  it("and that the provider closed meanwhile is replaced by a fresh one", async () => {
    const endpoint = await endpointOf((socket, asked) => socket.end(answer(`${asked}`)));
    for (const said of ["0", "1", "2"]) {
      expect(await read(endpoint)).toBe(said);
      await pause(20);
    }
    expect(sockets.size).toBe(3);
  });

  it.each([
    ["closes", (socket: Socket) => socket.end()],
    ["resets", (socket: Socket) => socket.resetAndDestroy()],
  ])("and that the provider %s while it is used again is replaced by a fresh one, once", async (_, close) => {
    let requests = 0;
    let isBroken = false;
    const endpoint = await endpointOf((socket, asked) => {
      requests++;
      if (asked === 1 || isBroken) close(socket);
      else socket.write(answer(`${asked}`));
    });
    expect(await read(endpoint)).toBe("0");
    expect(await read(endpoint)).toBe("2");
    expect(sockets.size).toBe(2);
    isBroken = true;
    await expect(read(endpoint)).rejects.toThrow(/cannot be reached: ECONNRESET/);
    expect(requests).toBeLessThanOrEqual(5);
  });

  it("is not replaced when the provider is silent on it, and the idle limit is that of one request", async () => {
    let requests = 0;
    const endpoint = await endpointOf((socket, asked) => {
      requests++;
      if (asked === 0) socket.write(answer("0"));
    }, 0.05);
    expect(await read(endpoint)).toBe("0");
    await expect(read(endpoint)).rejects.toMatchObject({ code: "silent" });
    expect(requests).toBe(2);
  });

  it.each([
    ["something that is no HTTP", "what?\r\n\r\n"],
    ["a part of a head", "HTTP/1.1 200 OK\r\ncontent-ty"],
    ["hints", "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"],
  ])("is not replaced when the provider had begun to answer with %s", async (_, beginning) => {
    let requests = 0;
    const endpoint = await endpointOf((socket, asked) => {
      requests++;
      if (asked === 0) socket.write(answer("0"));
      else socket.end(beginning);
    });
    expect(await read(endpoint)).toBe("0");
    await expect(read(endpoint)).rejects.toThrow(/cannot be reached/);
    expect(requests).toBe(2);
  });
});

describe("an answer that comes in parts", () => {
  it("may be split within its head and within each letter", async () => {
    const endpoint = await endpointOf(async (socket) => {
      for (const byte of answer("né 你好 😀")) {
        socket.write(Buffer.of(byte));
        await pause(0);
      }
    });
    expect(await read(endpoint)).toBe("né 你好 😀");
  });

  it.each(["HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"])(
    "may begin with heads that mean nothing yet: %j",
    async (beginning) => {
      const endpoint = await endpointOf(async (socket, asked) => {
        socket.write(beginning);
        if (asked % 2 === 0) await pause(20);
        socket.write(answer(`${asked}`));
      });
      expect(await read(endpoint)).toBe("0");
      expect(await read(endpoint)).toBe("1");
      expect(sockets.size).toBe(1);
    },
  );
});
