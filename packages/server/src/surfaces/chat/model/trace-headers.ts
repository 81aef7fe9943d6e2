type Headers = Readonly<Record<string, string | string[] | undefined>>;

/** What carries a trace on from one service to the next. */
const names = ["traceparent", "tracestate", "baggage"];

/** The headers of a request that carry its trace on, and no others. */
export function traceHeaders(headers: Headers | undefined): Record<string, string> {
  const carried = names.flatMap((name) => {
    const value = headers?.[name];
    return typeof value === "string" && value !== "" ? [[name, value] as const] : [];
  });
  return Object.fromEntries(carried);
}
