import { describeApi } from "../openapi.ts";
import type { HttpParts } from "../parts.ts";
import { defineRoute, type Route } from "../route.ts";
import { ref } from "../schemas.ts";

const prometheus = "text/plain; version=0.0.4; charset=utf-8";

/** What the server says of itself. `table` is asked for late: the description is one of the routes it describes. */
export function serverRoutes(
  { registry, files, skills, metrics, feed, recorder, mcpServers }: HttpParts,
  table: () => readonly Route[],
): Route[] {
  let description: unknown;
  return [
    defineRoute({
      method: "GET",
      path: "/metrics",
      id: "metrics",
      tag: "server",
      summary: "Counts and times in the text format of Prometheus",
      description: "Speaks only of tools that the token may use.",
      access: "token",
      responses: {
        200: { description: "The metrics.", contentType: prometheus, schema: { type: "string" } },
      },
      handle({ grant }) {
        const { totalTools, disabledTools } = registry.getStats();
        const failed = files.report().filter(({ status }) => status === "failed" || status === "stale");
        const readings = {
          activeCalls: registry.activeCalls().length,
          tools: { enabled: totalTools - disabledTools, disabled: disabledTools },
          failedFiles: failed.length,
          feedReaders: feed.readers,
          feedDropped: feed.dropped,
          recordFailures: recorder.failures,
        };
        const body = metrics.render(readings, (name) => grant.mayUse(registry.get(name) ?? { name }));
        return { body, contentType: prometheus };
      },
    }),
    defineRoute({
      method: "GET",
      path: "/openapi.json",
      id: "describe",
      tag: "server",
      summary: "This description",
      access: "token",
      responses: { 200: { description: "An OpenAPI 3.1 document.", schema: { type: "object" } } },
      handle() {
        description ??= describeApi(table());
        return { body: description };
      },
    }),
    defineRoute({
      method: "GET",
      path: "/api/files",
      id: "listFiles",
      tag: "files",
      summary: "The tool files and what became of each",
      access: "admin",
      responses: {
        200: {
          description: "The files as they stand.",
          schema: {
            type: "object",
            properties: { files: { type: "array", items: ref("FileReport") } },
            required: ["files"],
          },
        },
      },
      handle: () => ({ body: { files: files.report() } }),
    }),
    defineRoute({
      method: "POST",
      path: "/api/reload",
      id: "reload",
      tag: "files",
      summary: "Brings the rack in step with the tool files",
      access: "admin",
      body: { schema: { type: "object", additionalProperties: false } },
      responses: {
        200: { description: "What was loaded, removed and refused.", schema: ref("LoadReport") },
      },
      async handle() {
        const report = await files.load();
        // After the files: a skill's tool may stand for one of theirs.
        await skills.reload();
        await mcpServers?.reload();
        return { body: report };
      },
    }),
  ];
}
