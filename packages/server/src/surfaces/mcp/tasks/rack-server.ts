import { type JSONRPCRequest, type Result, Server, type ServerContext } from "@modelcontextprotocol/server";

type Handler = (request: JSONRPCRequest, context: ServerContext) => Promise<Result>;

/** The SDK's server, which checks that the answer to a call is the result of a tool; here it may also be a task. */
export class RackServer extends Server {
  protected override _wrapHandler(method: string, handler: Handler): Handler {
    if (method !== "tools/call") return super._wrapHandler(method, handler);
    return async (request, context) => {
      let task: Result | undefined;
      const checked = super._wrapHandler(method, async (given, itsContext) => {
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
