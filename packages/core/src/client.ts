/** A method for each tool, as `toolrack types` declares them. */
type Methods<Rack> = { readonly [Name in keyof Rack]: (args: never) => Promise<unknown> };

/** A rack of which no types are known: every tool takes any arguments. */
interface AnyRack {
  readonly [name: string]: (args?: Readonly<Record<string, unknown>>) => Promise<unknown>;
}

/** Where the rack is, and who calls. */
export interface ClientOptions {
  /** The address of `toolrack serve`, such as `http://127.0.0.1:7300`. */
  readonly url: string;
  readonly token?: string;
  /** Calls only what this expert has. */
  readonly expert?: string;
  /** Calls of one session share loop detection. */
  readonly sessionID?: string;
  /** Ends all calls that are made with this client. */
  readonly signal?: AbortSignal;
  /** Used instead of the global `fetch`. */
  readonly fetch?: typeof fetch;
}

/** Calls the tools of a rack over HTTP. */
export interface RackClient<Rack extends Methods<Rack>> {
  /** Every tool as a method: `rack.tools.add({ a: 1 })`. */
  readonly tools: Rack;
  /** The same by name: `rack.call("add", { a: 1 })`. */
  call<Name extends keyof Rack & string>(
    name: Name,
    ...args: Parameters<Rack[Name]>
  ): Promise<Awaited<ReturnType<Rack[Name]>>>;
}

/** A call that failed or was refused. `code` is one of `docs/reference/errors.md`. */
export class ToolCallError extends Error {
  override readonly name = "ToolCallError";
  readonly code: string;
  /** Whether another attempt, perhaps with other arguments, may succeed. */
  readonly recoverable: boolean;
  readonly toolName: string;
  /** Names the record of the call; undefined for a call that was never made. */
  readonly callId: string | undefined;
  readonly details: Readonly<Record<string, unknown>>;

  constructor(toolName: string, { code, message, recoverable, callId, details = {} }: Failure) {
    super(message ?? `The call of "${toolName}" failed.`);
    this.code = code ?? "execution_failed";
    this.recoverable = recoverable ?? details.recoverable === true;
    this.toolName = toolName;
    this.callId = callId ?? (typeof details.callId === "string" ? details.callId : undefined);
    this.details = details;
  }
}

interface Failure {
  readonly code?: string;
  readonly message?: string;
  readonly recoverable?: boolean;
  readonly callId?: string | undefined;
  readonly details?: Readonly<Record<string, unknown>>;
}

/** The members of the server's answers that a client reads. */
interface Answer {
  readonly callId?: string;
  readonly error?: Failure;
  readonly result?: {
    readonly type: string;
    readonly content: string;
    readonly structured?: unknown;
    readonly error?: Failure;
    readonly metadata?: { readonly truncated?: unknown };
  };
}

interface Page {
  readonly text: string;
  readonly nextOffset?: number;
}

/**
 * A client for the tools of a rack, on `fetch` alone. With the types that `toolrack types` writes, a wrong name or argument
 * is an error of the compiler: `createClient<Rack>({ url, token })`. A call resolves to the tool's structured value, to the
 * value of its JSON, or to its text, and rejects with `ToolCallError`.
 */
export function createClient<Rack extends Methods<Rack> = AnyRack>(options: ClientOptions): RackClient<Rack> {
  const call = (name: string, args?: object) => callTool(options, name, args);
  const methods = new Map<string, (args?: object) => Promise<unknown>>();
  const tools = new Proxy(Object.create(null), {
    get(_, name) {
      // An `await` of the object, by mistake, reads its `then`. No tool has that name.
      if (typeof name !== "string" || name === "then") return undefined;
      const method = methods.get(name) ?? ((args?: object) => call(name, args));
      methods.set(name, method);
      return method;
    },
  });
  // The cast is needed because the tools of `Rack` are only types: at run time, a proxy accepts every name.
  return { tools, call } as unknown as RackClient<Rack>;
}

async function callTool(options: ClientOptions, name: string, args: object = {}): Promise<unknown> {
  const { expert, sessionID } = options;
  const query = expert === undefined ? "" : `?expert=${encodeURIComponent(expert)}`;
  const path = `/api/tools/${encodeURIComponent(name)}/calls${query}`;
  const answer = await ask<Answer>(options, name, path, {
    method: "POST",
    body: JSON.stringify({ arguments: args, ...(sessionID !== undefined && { sessionID }) }),
  });
  const { callId, result } = answer;
  if (result === undefined || result.type === "error")
    throw new ToolCallError(name, { message: result?.content, callId, ...result?.error });
  if (result.structured !== undefined) return result.structured;
  const isCut = result.metadata?.truncated !== undefined && callId !== undefined;
  return parsedText(isCut ? await wholeText(options, name, callId) : result.content);
}

/** The whole text of a result of which the answer has only its beginning and end. */
async function wholeText(options: ClientOptions, name: string, callId: string): Promise<string> {
  const pieces: string[] = [];
  for (let offset: number | undefined = 0; offset !== undefined; ) {
    const path = `/api/calls/${encodeURIComponent(callId)}/result?limit=1000000&offset=${offset}`;
    const page: Page = await ask<Page>(options, name, path, {});
    pieces.push(page.text);
    offset = page.nextOffset;
  }
  return pieces.join("");
}

/** Objects and lists that a tool returned as text. Any other text stays as it is: `12` may be a name. */
function parsedText(text: string): unknown {
  if (!/^\s*[[{]/.test(text)) return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

async function ask<Body>(
  { url, token, signal, fetch: given = fetch }: ClientOptions,
  name: string,
  path: string,
  request: RequestInit,
): Promise<Body> {
  const headers = {
    ...(request.body !== undefined && { "content-type": "application/json" }),
    ...(token !== undefined && { authorization: `Bearer ${token}` }),
  };
  const sending = given(url.replace(/\/+$/, "") + path, { ...request, headers, ...(signal && { signal }) });
  const response = await sending.catch((thrown: unknown) => {
    signal?.throwIfAborted();
    const message = `${url} cannot be reached: ${reasonOf(thrown)}. Start a server there with: toolrack serve`;
    throw new ToolCallError(name, { code: "unreachable", message, recoverable: true });
  });
  const text = await response.text();
  const body: unknown = response.headers.get("content-type")?.includes("json") ? JSON.parse(text) : undefined;
  // The cast is safe: the caller names the type that the API documents for this path.
  if (response.ok && body !== undefined) return body as Body;
  const failure = (body as Answer | undefined)?.error; // Every refusal of the server has this member.
  const message = `${url} answered ${response.status} ${response.statusText} and nothing that can be read. Is it the address of toolrack serve?`;
  throw new ToolCallError(name, failure ?? { code: "unreadable_answer", message });
}

/** What `fetch` says of a connection that failed is in the cause of its error. */
function reasonOf(thrown: unknown): string {
  const { cause, message } = Object(thrown);
  return String(Object(cause).message || message || thrown);
}
