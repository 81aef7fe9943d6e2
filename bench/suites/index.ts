import { apis } from "./apis.ts";
import { call } from "./call.ts";
import { chat } from "./chat.ts";
import { code } from "./code.ts";
import { files } from "./files.ts";
import { fleet } from "./fleet.ts";
import { gateway } from "./gateway.ts";
import { growth } from "./growth.ts";
import { http } from "./http.ts";
import { mcp } from "./mcp.ts";
import { nodes } from "./nodes.ts";
import { record } from "./record.ts";
import { registry } from "./registry.ts";
import { rest } from "./rest.ts";
import { sandbox } from "./sandbox.ts";
import { start } from "./start.ts";
import { subscribers } from "./subscribers.ts";
import { tests } from "./tests.ts";

export const suites = {
  call,
  registry,
  files,
  record,
  http,
  nodes,
  mcp,
  gateway,
  growth,
  start,
  rest,
  chat,
  apis,
  sandbox,
  subscribers,
  fleet,
  tests,
  code,
};

export type SuiteName = keyof typeof suites;
