import { type JSONRPCRequest, type Result, Server, type ServerContext } from "@modelcontextprotocol/server";

type Handler = (request: JSONRPCRequest, context: ServerContext) => Promise<Result>;

/**
 * The SDK's server, which checks that the answer to a call is the result of a tool; here it may also be a task. It also
 * remembers which level its client has set for the log, which the SDK keeps to itself.
 */
export class RackServer extends Server {
  #logLevel: string | undefined;

  get logLevel(): string | undefined {
    return this.#logLevel;
  }

  protected override _wrapHandler(method: string, handler: Handler): Handler {
    if (method === "tools/call") return this.#allowingTasks(handler);
    if (method !== "logging/setLevel") return super._wrapHandler(method, handler);
    return super._wrapHandler(method, (request, context) => {
      const { level } = request.params ?? {};
      if (typeof level === "string") this.#logLevel = level;
      return handler(request, context);
    });
  }

  #allowingTasks(handler: Handler): Handler {
    return async (request, context) => {
      let task: Result | undefined;
      const checked = super._wrapHandler("tools/call", async (given, itsContext) => {
        const result = await handler(given, itsContext);
        if (result.resultType !== "task") return result;
        task = result;
        return { content: [] };
      });
      const answer = await checked(request, context);
      return task ?? answer;
    };
  }
}
