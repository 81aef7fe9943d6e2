import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { guardWrite, realPathOf } from "../../access/index.ts";
import { runToolName } from "../../calls/index.ts";
import { CodeProblem, toSingleFile } from "../../code/index.ts";
import { refusals, requireCall, serveCall } from "../call-answers.ts";
import type { HttpServices } from "../services.ts";
import { withMetaTools } from "../tool-lists.ts";
import { expertQuery, HttpError, type Route, reachOf, routesFor, s } from "../wire/index.ts";
import { callAnswer, callOptions } from "./tools.ts";

/** Code over tools: running it, and keeping it as a tool. */
export function codeRoutes(services: HttpServices): Route[] {
  const { registry, service, skills, files, workspace } = services;
  const route = routesFor("code", "token");
  return [
    route("POST /api/code", "runCode", "Runs code over the tools that the token may use", {
      description:
        "TypeScript or JavaScript, as the guide on code mode describes it. It is a call of `toolrack_run`, and each call that the code makes is one too: `GET /api/calls?root={callId}` has them. Closing the connection cancels it, unless it waits for a person or was made with `keep`.",
      query: { expert: expertQuery },
      body: s.closed({ code: s.text({ minLength: 1, maxLength: 100_000 }), ...callOptions }),
      ...callAnswer,
      errors: [...refusals, "expert_not_found", "code_off", "call_exists", "too_many_calls", "stopping"],
      handle({ query, body, grant: ownGrant, incoming, outgoing }) {
        if (registry.get(runToolName) === undefined) throw isOff();
        const { code, timeout, ...options } = body;
        const { grant, allow, expert } = withMetaTools(reachOf(ownGrant, skills.experts, query.expert));
        const input = { code, ...(timeout !== undefined && { timeout }) };
        const call = { name: runToolName, input, grant, allow, expert: expert?.name, ...options };
        return serveCall(service, call, incoming, outgoing);
      },
    }),
    route("POST /api/calls/{callId}/tool", "saveAsTool", "Writes the code of a run as a tool file", {
      description:
        "Makes `tools/NAME.tool.js`, a single-file tool. Plain values that the code gives to tools become its parameters, with those values as defaults. Tools that it calls outside the sandbox have to be granted to it: `grant` says how.",
      access: "admin",
      params: { callId: s.text({ minLength: 1 }) },
      body: s.closed({
        name: s.text("The tool's name.", { pattern: "^[a-z][a-z0-9_-]{0,50}$" }),
        description: s.text("What models are told of it.", { minLength: 1, maxLength: 1_000 }),
      }),
      answer: [
        "It is written and loaded.",
        s.object({
          path: s.text("In the workspace."),
          parameters: s.texts(),
          tools: s.texts("The tools that it calls."),
          grant: s.text("What to write into the config, so that it may call them."),
        }),
      ],
      errors: ["call_not_found", "not_code", "tool_file_exists"],
      async handle({ params: { callId }, body: { name, description }, grant }) {
        const { toolName, parameters } = await requireCall(grant, callId, services);
        const { code } = parameters;
        if (toolName !== runToolName || typeof code !== "string")
          throw new HttpError("not_code", `The call "${callId}" is of "${toolName}", which is no code.`);
        const saved = await toSingleFile(name, description, code, registry).catch((thrown: unknown) => {
          throw thrown instanceof CodeProblem ? new HttpError("not_code", thrown.message) : thrown;
        });
        const folder = workspace.toolFolders?.[0] ?? join(workspace.directory, "tools");
        const path = join(folder, `${name}.tool.js`);
        const shown = path.slice(workspace.directory.length + 1);
        // An admin asked for this very file, so nobody is asked again.
        const { caller } = grant;
        const call = {
          workspace: { ...workspace, isAdmin: true },
          caller,
          signal: never,
          ask: async () => {},
        };
        await guardWrite(call, await realPathOf(path), { shown, isAsked: true });
        await mkdir(folder, { recursive: true });
        await writeFile(path, saved.text, { flag: "wx" }).catch((thrown: NodeJS.ErrnoException) => {
          if (thrown.code !== "EEXIST") throw thrown;
          throw new HttpError("tool_file_exists", `There is a file ${shown} already. Choose another name.`);
        });
        await files.load();
        const names = saved.tools.map((tool) => JSON.stringify(tool)).join(", ");
        const text = `sandbox: { grants: { "${name}": { tools: [${names}] } } }`;
        return { path: shown, parameters: saved.parameters, tools: saved.tools, grant: text };
      },
    }),
  ];
}

const never = new AbortController().signal;

function isOff(): HttpError {
  return new HttpError(
    "code_off",
    'Code is switched off on this rack. The config says so: code: { mode: "off" }.',
  );
}
