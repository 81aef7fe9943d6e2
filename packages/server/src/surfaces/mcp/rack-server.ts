import {
  type Implementation,
  type JSONRPCRequest,
  ProtocolError,
  ProtocolErrorCode,
  type Result,
  Server,
  type ServerContext,
  type ServerOptions,
  type Transport,
} from "@modelcontextprotocol/server";
import { paramsProblem } from "./params-problem.ts";
import { withOlderCodes } from "./with-older-codes.ts";

type Handler = (request: JSONRPCRequest, context: ServerContext) => Promise<Result>;

/**
 * The SDK's server, which checks that the answer to a call is the result of a tool; here it may also be a task. It also
 * remembers which level its client has set for the log, which the SDK keeps to itself, says in a sentence what is wrong
 * with the parameters of a request, and speaks to clients of the older versions in the codes of those.
 */
export class RackServer extends Server {
  readonly #era: "legacy" | "modern";
  #logLevel: string | undefined;

  constructor(info: Implementation, options: ServerOptions, era: "legacy" | "modern") {
    super(info, options);
    this.#era = era;
  }

  get logLevel(): string | undefined {
    return this.#logLevel;
  }

  override connect(transport: Transport): Promise<void> {
    return super.connect(this.#era === "legacy" ? withOlderCodes(transport) : transport);
  }

  protected override _wrapHandler(method: string, handler: Handler): Handler {
    // Where the SDK checks the parameters itself, it throws before the handler has begun.
    const checked: Handler = (request, context) => {
      try {
        return handler(request, context);
      } catch (thrown) {
        throw explained(method, thrown);
      }
    };
    if (method === "tools/call") return this.#allowingTasks(checked);
    if (method !== "logging/setLevel") return super._wrapHandler(method, checked);
    return super._wrapHandler(method, async (request, context) => {
      const result = await checked(request, context);
      const { level } = request.params ?? {};
      if (typeof level === "string") this.#logLevel = level;
      return result;
    });
  }

  #allowingTasks(handler: Handler): Handler {
    return async (request, context) => {
      let task: Result | undefined;
      let hasBegun = false;
      const checked = super._wrapHandler("tools/call", async (given, itsContext) => {
        hasBegun = true;
        const result = await handler(given, itsContext);
        if (result.resultType !== "task") return result;
        task = result;
        return { content: [] };
      });
      try {
        const answer = await checked(request, context);
        return task ?? answer;
      } catch (thrown) {
        throw hasBegun ? thrown : explained("tools/call", thrown);
      }
    };
  }
}

/** The SDK takes parameters that do not fit for a failure of its own. */
function explained(method: string, thrown: unknown): unknown {
  const problem = thrown instanceof Error ? paramsProblem(method, thrown.message) : undefined;
  return problem === undefined ? thrown : new ProtocolError(ProtocolErrorCode.InvalidParams, problem);
}
