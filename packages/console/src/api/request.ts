import { ApiError, readJson } from "./api-error.ts";
import type { Answers } from "./generated-types.ts";
import { acceptToken, currentSession, refuseToken } from "./session.ts";

export interface Asked {
  readonly path?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

/**
 * Sends a request and returns its answer, parsed from JSON. `route` is a method and a path, such as `GET
 * /api/tools/{name}`. Rejects with an `ApiError`.
 */
export async function request<Route extends keyof Answers>(
  route: Route,
  asked: Asked = {},
): Promise<Answers[Route]> {
  return readJson<Answers[Route]>(await open(route, asked), asked.signal);
}

export type ListRoute = {
  [Route in keyof Answers]: Answers[Route] extends { readonly items: readonly unknown[] } ? Route : never;
}[keyof Answers];
export type ItemsOf<Route extends ListRoute> = Answers[Route]["items"];

/** Reads the pages of a list to its end, or to about `most` items. `hasMore`: there are unread pages. */
export async function readPages<Route extends ListRoute>(
  route: Route,
  asked: Asked,
  most = Number.POSITIVE_INFINITY,
): Promise<{ readonly items: ItemsOf<Route>[number][]; readonly hasMore: boolean }> {
  const items: ItemsOf<Route>[number][] = [];
  let cursor: string | undefined;
  do {
    // Every list has `items`; a paged one also has the cursor of the next page.
    const page: { items: ItemsOf<Route>; next?: string } = await request(route, {
      ...asked,
      query: { ...asked.query, cursor },
    });
    items.push(...page.items);
    cursor = page.next;
  } while (cursor !== undefined && items.length < most);
  return { items, hasMore: cursor !== undefined };
}

/** The answer to a request, or `otherwise` when the token may not read it. */
export async function unlessForbidden<Answer, Else>(
  asking: Promise<Answer>,
  otherwise: Else,
): Promise<Answer | Else> {
  return asking.catch((thrown: unknown) => {
    if (thrown instanceof ApiError && thrown.code === "forbidden") return otherwise;
    throw thrown;
  });
}

/** Sends a request. Rejects with an `ApiError` when the server refuses it or does not answer. */
export async function open(route: string, asked: Asked = {}): Promise<Response> {
  const { token } = currentSession;
  const [method = "GET", path = ""] = route.split(" ");
  const response = await fetch(addressOf(path, asked), {
    method,
    headers: {
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      ...(asked.body === undefined ? {} : { "content-type": "application/json" }),
      ...asked.headers,
    },
    ...(asked.body === undefined ? {} : { body: JSON.stringify(asked.body) }),
    ...(asked.signal === undefined ? {} : { signal: asked.signal }),
    cache: "no-store",
    credentials: "omit",
  }).catch((thrown: unknown) => {
    if (asked.signal?.aborted) throw thrown;
    throw new ApiError(0, "unreachable", "");
  });
  const isOwnToken = asked.headers?.authorization === undefined;
  if (response.ok) {
    if (token !== undefined && isOwnToken) acceptToken(token);
    return response;
  }
  if (response.status === 401 && isOwnToken) refuseToken(token);
  throw await ApiError.from(response);
}

function addressOf(template: string, { path = {}, query = {} }: Asked): string {
  const address = template.replace(/\{(\w+)\}/g, (_whole, name) => encodeURIComponent(path[name] ?? ""));
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (value !== undefined && value !== "") search.set(key, String(value));
  }
  return search.size === 0 ? address : `${address}?${search}`;
}
