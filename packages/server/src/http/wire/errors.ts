import { CallRefused } from "../../calls/index.ts";
import { isFullDisk, StoreUnavailable } from "../../store/index.ts";

interface HttpErrorOptions {
  readonly details?: Readonly<Record<string, unknown>>;
  readonly headers?: Readonly<Record<string, string>>;
  /** A model provider's own error type. Default: according to the status. */
  readonly type?: string;
  /** Default: the first place in `details.issues`. */
  readonly param?: string;
}

/** The form of every error that the server sends. */
interface ErrorEnvelope {
  readonly error: {
    readonly code: HttpErrorCode;
    readonly message: string;
    readonly details: Readonly<Record<string, unknown>>;
    /** The kind of error, in OpenAI's words. */
    readonly type: string;
    /** The member of the request that is wrong, such as `messages[0].content`. */
    readonly param: string | null;
  };
}

/** A refused request. May be thrown anywhere below a route; `sendError` answers it. */
export class HttpError extends Error {
  readonly code: HttpErrorCode;
  readonly status: number;
  readonly details: Readonly<Record<string, unknown>>;
  readonly headers: Readonly<Record<string, string>>;
  readonly #own: Pick<HttpErrorOptions, "type" | "param">;

  constructor(code: HttpErrorCode, message: string, options: HttpErrorOptions = {}) {
    super(message);
    this.name = "HttpError";
    this.code = code;
    this.status = httpErrorCodes[code].status;
    this.details = options.details ?? {};
    this.headers = options.headers ?? {};
    this.#own = options;
  }

  /** Translates an error by which a request was refused; undefined for any other error. */
  static from(thrown: unknown): HttpError | undefined {
    if (thrown instanceof HttpError) return thrown;
    // A full-disk error always counts as the store's. A connection error may come from elsewhere, so it
    // counts as the store's only when the store has thrown it as `StoreUnavailable`.
    if (thrown instanceof StoreUnavailable || isFullDisk(thrown)) {
      const { code, message, reason, retryAfter } = StoreUnavailable.from(thrown)!; // `from` converts both.
      return new HttpError(code, message, {
        details: { reason },
        headers: { "Retry-After": String(retryAfter) },
      });
    }
    if (!(thrown instanceof CallRefused)) return undefined;
    const { code, message, details, retryAfter } = thrown;
    return new HttpError(code, message, {
      details,
      ...(retryAfter === undefined ? {} : { headers: { "Retry-After": String(retryAfter) } }),
    });
  }

  toEnvelope(): ErrorEnvelope {
    const { code, message, details } = this;
    const { type = typeOf(this.status), param = firstPath(details) } = this.#own;
    return { error: { code, message, type, param, details } };
  }
}

/** OpenAI's clients show the type of an error, and programs decide by it. */
function typeOf(status: number): string {
  if (status === 401) return "authentication_error";
  if (status === 403) return "permission_error";
  if (status === 429) return "rate_limit_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

function firstPath({ issues }: Readonly<Record<string, unknown>>): string | null {
  const { path } = Object(Array.isArray(issues) ? issues[0] : undefined);
  return typeof path === "string" && path !== "" ? path : null;
}

/**
 * All error codes with their HTTP status. The codes of a tool's own refusals come from the core. `/openapi.json` is
 * generated from this list.
 */
export const httpErrorCodes = {
  bad_request: { status: 400, when: "The request line, the headers or the body could not be read." },
  invalid_json: { status: 400, when: "The body is not JSON in UTF-8." },
  invalid_request: {
    status: 400,
    when: "The path, the query or the body does not fit its schema; `details.issues` lists each place.",
  },
  mcp_server_invalid: { status: 400, when: "The key or the entry of an upstream MCP server cannot be used." },
  provider_refused: {
    status: 400,
    when: "The model provider does not accept the request; its words are in the message.",
  },
  not_code: {
    status: 400,
    when: "The call did not run code, or its code cannot be a tool; the message says why.",
  },
  secret_invalid: { status: 400, when: "The name or the value cannot be that of a secret." },
  setting_invalid: {
    status: 400,
    when: "The name or the value cannot be that of a setting, or the name is that of a secret.",
  },
  unauthorized: { status: 401, when: "There is no token, or it is unknown or has expired." },
  forbidden: { status: 403, when: "The token is valid but not an admin's." },
  chat_forbidden: {
    status: 403,
    when: "The token may not use the models, or the conversation belongs to another token.",
  },
  host_not_allowed: {
    status: 403,
    when: "The Host header names a host that this server does not answer for.",
  },
  origin_not_allowed: { status: 403, when: "A page of another origin made the request." },
  permission_denied: { status: 403, when: "The tool asks for a permission that callers do not hold." },
  approval_denied: { status: 403, when: "A person or a policy said no, or nobody answered in time." },
  not_found: { status: 404, when: "There is nothing at this path." },
  tool_not_found: { status: 404, when: "No tool that this token may see has this name or alias." },
  call_not_found: { status: 404, when: "No call that this token may see has this id." },
  approval_not_found: { status: 404, when: "There is no question with this id." },
  loop_not_found: { status: 404, when: "No session of this name went in circles in the last 24 hours." },
  approval_rule_not_found: { status: 404, when: "There is no approval rule with this id." },
  mcp_server_not_found: { status: 404, when: "There is no upstream MCP server with this key." },
  mcp_tool_not_found: { status: 404, when: "The upstream MCP server has no tool of this name." },
  schedule_not_found: { status: 404, when: "No schedule that this token may see has this id." },
  prompt_not_found: { status: 404, when: "No prompt that this token may use has this name." },
  resource_not_found: { status: 404, when: "No resource that this token may read has this URI." },
  skill_not_found: { status: 404, when: "There is no skill with this id or name." },
  skill_tool_not_found: { status: 404, when: "The skill has no tool with this id or name." },
  expert_not_found: { status: 404, when: "No expert that this token may use has this name or id." },
  model_not_found: { status: 404, when: "No model provider has a model of this name." },
  chat_session_not_found: { status: 404, when: "No conversation that this token may see has this id." },
  response_not_found: { status: 404, when: "No response that this token may see has this id." },
  token_not_found: { status: 404, when: "There is no token with this id." },
  secret_not_found: { status: 404, when: "There is no secret of this name." },
  setting_not_found: { status: 404, when: "There is no setting of this name." },
  search_not_found: { status: 404, when: "No learned search that this token may see has this id." },
  data_not_found: { status: 404, when: "No sandboxed tool or skill of this name has kept files." },
  method_not_allowed: { status: 405, when: "The path exists, but not for this method; see `Allow`." },
  request_timeout: { status: 408, when: "The request did not arrive in time." },
  code_off: { status: 409, when: "Code mode is switched off in the config." },
  tool_file_exists: { status: 409, when: "There is a tool file of this name already." },
  mcp_server_exists: { status: 409, when: "There is an upstream MCP server with this key already." },
  mcp_server_read_only: {
    status: 409,
    when: "The upstream MCP server stands in the workspace's file and is changed there.",
  },
  mcp_tool_changed: {
    status: 409,
    when: "The tool changed after it was looked at, so it was not approved; `details` has its `hash` and `changes` of now.",
  },
  node_not_found: { status: 404, when: "No node with this id is there, or it does not answer." },
  call_exists: { status: 409, when: "A call with the wanted `callId` exists." },
  call_unwritable: {
    status: 409,
    when: "The call cannot be written down as a test: its record is not whole, a secret cannot be left out (`details.path`), or the file of tests refuses it.",
  },
  call_ended: { status: 409, when: "The call has ended and cannot be cancelled any more." },
  result_missing: {
    status: 500,
    when: "A part of the record, such as the whole of a long result, is not where it was kept: somebody deleted it, or its storage was lost.",
  },
  call_running: { status: 409, when: "The call has not ended and has no result yet." },
  arguments_redacted: {
    status: 409,
    when: "Parts of the recorded arguments were masked, so the call cannot be repeated without new ones.",
  },
  chat_cancelled: {
    status: 409,
    when: "Only in `toolrack.error` of an answer: the same request made calls a moment ago, and its connection closed, or it ran on another server; it is not done twice.",
  },
  chat_busy: { status: 409, when: "The last message of the conversation is still being answered." },
  approval_decided: { status: 409, when: "The question was answered, or nobody answered it in time." },
  approval_elsewhere: {
    status: 409,
    when: "The call that asks waits on another node, and expires before that would learn of the answer.",
  },
  schedule_ended: {
    status: 409,
    when: "The schedule has run for the last time, was cancelled, or is not in the state that is to change.",
  },
  skill_changed: {
    status: 409,
    when: "The skill, tool or expert was changed after it was looked at, so nothing was; `details` has its `updatedAt` of now, and in `now` the fields that were to be changed.",
  },
  skill_read_only: { status: 409, when: "The skill lives in a folder, where it is to be changed." },
  tool_disabled: { status: 409, when: "An operator switched the tool off." },
  loop_blocked: { status: 409, when: "The session repeats itself without progress." },
  payload_too_large: { status: 413, when: "The body is larger than the server takes." },
  unsupported_media_type: { status: 415, when: "The body is not sent as `application/json`." },
  expectation_failed: {
    status: 417,
    when: "The `Expect` header asks for something else than `100-continue`.",
  },
  invalid_arguments: {
    status: 422,
    when: "The arguments do not fit the tool's schema; see `details.issues`.",
  },
  rate_limited: { status: 429, when: "The token makes more requests than it may; see `Retry-After`." },
  too_many_calls: { status: 429, when: "The tool runs as often as it may at one time; see `Retry-After`." },
  busy: {
    status: 429,
    when: "As many calls as may wait for a worker of the tool's lane; see `Retry-After`.",
  },
  provider_busy: {
    status: 429,
    when: "The model provider takes no more requests for now; see `Retry-After`.",
  },
  headers_too_large: { status: 431, when: "The headers are larger than the server takes." },
  internal_error: { status: 500, when: "The server failed; its log says why." },
  offering_failed: {
    status: 502,
    when: "The prompt or resource failed; the message says why.",
  },
  provider_failed: { status: 502, when: "The model provider failed, or could not be reached." },
  mcp_sign_in_failed: {
    status: 502,
    when: "The upstream MCP server, or who signs in for it, does not let the rack sign in; the message says why.",
  },
  provider_unauthorized: {
    status: 502,
    when: "The model provider does not accept the key that it is configured with.",
  },
  provider_missing: { status: 503, when: "No model provider is configured, or its key is not set." },
  not_ready: {
    status: 503,
    when: "The store does not answer, or as many records as are kept in memory wait for it; `details` says why and how many.",
  },
  store_unavailable: {
    status: 503,
    when: "The rack's database is away, locked, damaged, or its disk is full; `details.reason` says which. See `Retry-After`.",
  },
  stopping: { status: 503, when: "The server is stopping and takes no new work." },
} as const satisfies Readonly<Record<string, { readonly status: number; readonly when: string }>>;

export type HttpErrorCode = keyof typeof httpErrorCodes;
