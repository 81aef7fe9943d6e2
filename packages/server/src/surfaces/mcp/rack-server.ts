import { type JSONRPCRequest, type Result, Server, type ServerContext } from "@modelcontextprotocol/server";

type Handler = (request: JSONRPCRequest, context: ServerContext) => Promise<Result>;

/**
 * The SDK's server, which checks that the answer to a call is the result of a tool; here it may also be a task. It also
 * remembers that its client has set a level for the log: which one is the SDK's business.
 */
export class RackServer extends Server {
  #hasLogLevel = false;

  get hasLogLevel(): boolean {
    return this.#hasLogLevel;
  }

  protected override _wrapHandler(method: string, handler: Handler): Handler {
    if (method === "tools/call") return this.#allowingTasks(handler);
    if (method !== "logging/setLevel") return super._wrapHandler(method, handler);
    return super._wrapHandler(method, (request, context) => {
      this.#hasLogLevel = true;
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
