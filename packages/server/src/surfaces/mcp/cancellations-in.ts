import { isRecord } from "../../json/is-record.ts";

export interface Cancellation {
  readonly requestId: string | number;
  readonly reason?: string;
}

const none: readonly never[] = Object.freeze([]);

/** What a message cancels, or a batch of them. One that names no request cancels nothing. */
export function cancellationsIn(body: unknown): readonly Cancellation[] {
  if (Array.isArray(body)) return body.flatMap((message) => cancellationOf(message) ?? none);
  const single = cancellationOf(body);
  return single === undefined ? none : [single];
}

/** The same for one message alone. */
export function cancellationOf(message: unknown): Cancellation | undefined {
  if (!isRecord(message) || message.method !== "notifications/cancelled") return undefined;
  const { requestId, reason } = isRecord(message.params) ? message.params : {};
  if (typeof requestId !== "string" && typeof requestId !== "number") return undefined;
  return typeof reason === "string" ? { requestId, reason } : { requestId };
}
