import { request } from "../api/request.ts";
import type { CallPage, CallSummary } from "../api/types.ts";

const PAGE = 500;

/** The newest calls since a moment, at most so many. */
export async function readCalls(
  query: { readonly since: number; readonly tool?: string; readonly flag?: "loop" },
  most: number,
  signal?: AbortSignal,
): Promise<CallSummary[]> {
  const calls: CallSummary[] = [];
  let cursor: string | undefined;
  do {
    const page = await request<CallPage>("/api/calls", {
      query: { ...query, limit: Math.min(PAGE, most), cursor },
      ...(signal === undefined ? {} : { signal }),
    });
    calls.push(...page.items);
    cursor = page.next;
  } while (cursor !== undefined && calls.length < most);
  return calls;
}
