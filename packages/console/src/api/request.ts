import { ApiError } from "./api-error.ts";
import { readJson } from "./read-json.ts";
import { acceptToken, currentSession, refuseToken } from "./session.ts";

export interface Asked {
  readonly method?: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  readonly body?: unknown;
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

/** The answer as JSON. Rejects with an `ApiError` that says what the server said. */
export async function request<Answer>(path: string, asked: Asked = {}): Promise<Answer> {
  return readJson<Answer>(await open(path, asked), asked.signal);
}

/** The answer itself, once it is known not to be a refusal. */
export async function open(path: string, asked: Asked = {}): Promise<Response> {
  const { token } = currentSession;
  const response = await fetch(addressOf(path, asked.query), {
    method: asked.method ?? "GET",
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

function addressOf(path: string, query: Asked["query"] = {}): string {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (value !== undefined && value !== "") search.set(key, String(value));
  }
  return search.size === 0 ? path : `${path}?${search}`;
}
