import { type CallClient, Tool, type ToolContext } from "@toolrack/core";

const nothing = { type: "object", properties: {} } as const;

type Asking = Pick<ToolContext, "client" | "signal">;

function clientOf({ client }: Asking): CallClient {
  if (client === undefined) throw new Error("There is no client to ask.");
  return client;
}

const keyed = (key: string) => ({ _meta: { "toolrack/key": key } });

function elicit(context: Asking, key: string, message: string, field: string, type = "string") {
  const requestedSchema = { type: "object", properties: { [field]: { type } }, required: [field] };
  const params = { mode: "form", message, requestedSchema, ...keyed(key) };
  return clientOf(context).request("elicitation/create", params, context.signal);
}

function sample(context: Asking, key: string, text: string) {
  const messages = [{ role: "user", content: { type: "text", text } }];
  const params = { messages, maxTokens: 100, ...keyed(key) };
  return clientOf(context).request("sampling/createMessage", params, context.signal);
}

function roots(context: Asking, key: string) {
  return clientOf(context).request("roots/list", keyed(key), context.signal);
}

function asking(name: string, ask: (context: Asking) => Promise<unknown>) {
  return Tool.define({
    name: `test_input_required_result_${name}`,
    description: "Cannot go on without answers of the client.",
    parameters: nothing,
    execute: async (context) => `Answered with ${JSON.stringify(await ask(context))}`,
  });
}

export const tools = [
  asking("elicitation", (context) => elicit(context, "user_name", "What is your name?", "name")),
  asking("sampling", (context) => sample(context, "capital_question", "What is the capital of France?")),
  asking("list_roots", (context) => roots(context, "client_roots")),
  asking("request_state", (context) => elicit(context, "confirm", "Please confirm", "ok", "boolean")),
  asking("tampered_state", (context) => elicit(context, "confirm", "Please confirm", "ok", "boolean")),
  asking("multiple_inputs", (context) =>
    Promise.all([
      elicit(context, "user_name", "What is your name?", "name"),
      sample(context, "greeting", "Generate a greeting"),
      roots(context, "client_roots"),
    ]),
  ),
  asking("multi_round", async (context) => [
    await elicit(context, "step1", "Step 1: What is your name?", "name"),
    await elicit(context, "step2", "Step 2: What is your favorite color?", "color"),
  ]),
  asking("capabilities", async (context) => {
    const client = clientOf(context);
    const asked = [];
    if (client.can("elicitation/create")) asked.push(elicit(context, "name", "What is your name?", "name"));
    if (client.can("sampling/createMessage")) asked.push(sample(context, "greeting", "Generate a greeting"));
    return Promise.all(asked);
  }),
];
