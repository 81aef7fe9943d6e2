import { fromJsonSchema, ProtocolError, ProtocolErrorCode, type Server } from "@modelcontextprotocol/server";
import { listCache } from "./list-cache.ts";
import type { McpParts } from "./mcp-parts.ts";
import { pageOf } from "./page-of.ts";
import type { Viewer } from "./viewer.ts";

const listParams = fromJsonSchema<{ cursor?: string }>({
  type: "object",
  properties: { cursor: { type: "string" } },
});
const uriParams = fromJsonSchema<{ uri: string }>({
  type: "object",
  properties: { uri: { type: "string" } },
  required: ["uri"],
});

/** The extension by which clients find skills and their files. The files themselves are resources. */
export function serveSkills(server: Server, { offerings }: McpParts, viewer: Viewer): void {
  server.setRequestHandler("skills/list", { params: listParams }, async ({ cursor }, { mcpReq }) => {
    const skills = await offerings.skills(viewer.reader(mcpReq.signal));
    const sorted = skills.toSorted((one, other) => (one.uri < other.uri ? -1 : 1));
    const { items, nextCursor } = pageOf("skills", sorted, ({ uri }) => uri, cursor);
    return { skills: items, ...(nextCursor === undefined ? {} : { nextCursor }), ...listCache };
  });
  server.setRequestHandler("skills/get", { params: uriParams }, async ({ uri }, { mcpReq }) => {
    const skill = await offerings.getSkill(uri, viewer.reader(mcpReq.signal));
    if (skill === undefined)
      throw unknown(`There is no skill at ${uri}. skills/list has those that there are.`);
    return { skill, ...listCache };
  });
  server.setRequestHandler("resources/directory/read", { params: uriParams }, async ({ uri }, { mcpReq }) => {
    const directory = await offerings.readDirectory(uri, viewer.reader(mcpReq.signal));
    if (directory === undefined) throw unknown(`There is no folder at ${uri}.`);
    return { ...directory, ...listCache };
  });
}

function unknown(message: string): ProtocolError {
  return new ProtocolError(ProtocolErrorCode.InvalidParams, message);
}
