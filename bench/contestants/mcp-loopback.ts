interface Message {
  readonly jsonrpc: "2.0";
  readonly id?: string | number;
  readonly result?: unknown;
  readonly error?: { readonly message: string };
}

/**
 * A transport with nobody at the other end: requests go straight into the server and its answers straight back,
 * so that the server is measured without a client. It fits both generations of the SDK.
 */
export class LoopbackTransport {
  onmessage?: (message: object) => void;
  onclose?: () => void;
  onerror?: (error: Error) => void;
  #nextId = 0;
  readonly #waiting = new Map<number, PromiseWithResolvers<unknown>>();

  request(method: string, params: object): Promise<unknown> {
    const id = this.#nextId++;
    const waiter = Promise.withResolvers<unknown>();
    this.#waiting.set(id, waiter);
    this.onmessage?.({ jsonrpc: "2.0", id, method, params });
    return waiter.promise;
  }

  async send(message: Message): Promise<void> {
    // What has no id of ours is a notification, and nobody waits for it.
    const waiter = this.#waiting.get(Number(message.id));
    if (waiter === undefined) return;
    this.#waiting.delete(Number(message.id));
    if (message.error === undefined) waiter.resolve(message.result);
    else waiter.reject(new Error(message.error.message));
  }

  async start(): Promise<void> {}
  async close(): Promise<void> {}
}

interface CallToolResult {
  readonly isError?: boolean;
  readonly content: readonly { readonly text?: string }[];
}

export function readMcpAnswer(output: unknown): string {
  // Both SDKs resolve `tools/call` to this.
  const { isError, content } = output as CallToolResult;
  const text = content[0]?.text ?? "";
  if (isError) throw new Error(text);
  return text;
}

export function toMcpResult(text: string) {
  return { content: [{ type: "text" as const, text }] };
}
