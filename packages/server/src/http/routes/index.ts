import { describeApi } from "../openapi.ts";
import type { HttpServices } from "../services.ts";
import type { HttpExtension, Route } from "../wire/index.ts";
import { approvalRoutes } from "./approvals.ts";
import { callRoutes } from "./calls.ts";
import { codeRoutes } from "./code.ts";
import { healthRoutes } from "./health.ts";
import { Linters, lintRoute } from "./lint.ts";
import { loopRoutes } from "./loops.ts";
import { mcpServerRoutes } from "./mcp-servers.ts";
import { offeringRoutes } from "./offerings.ts";
import { openaiRoutes } from "./openai.ts";
import { overviewRoute } from "./overview.ts";
import { scheduleRoutes } from "./schedules.ts";
import { searchRoutes } from "./searches.ts";
import { dataRoutes, eventRoute, nodeRoutes, serverRoutes, statsRoute } from "./server.ts";
import { skillToolRoutes } from "./skill-tools.ts";
import { skillTransferRoutes } from "./skill-transfer.ts";
import { expertRoutes, skillRoutes } from "./skills.ts";
import { testRoutes } from "./tests.ts";
import { tokenRoutes } from "./tokens.ts";
import { toolRoutes } from "./tools.ts";
import { secretRoutes, settingRoutes } from "./values.ts";

/** All routes. The API, its validation and its description are made from this table. */
export function apiRoutes(services: HttpServices, extensions: readonly HttpExtension[]): Route[] {
  const schemas = Object.assign({}, ...extensions.map((extension) => extension.schemas));
  const linters = new Linters(services);
  const routes: Route[] = [
    ...healthRoutes(services),
    // The OpenAPI document includes its own route, so it is made from the complete table.
    ...serverRoutes(services, () => describeApi(routes, schemas)),
    ...nodeRoutes(services),
    ...tokenRoutes(services),
    ...secretRoutes(services),
    ...settingRoutes(services),
    ...toolRoutes(services, linters),
    ...searchRoutes(services),
    lintRoute(linters),
    ...callRoutes(services),
    ...codeRoutes(services),
    ...loopRoutes(services),
    ...testRoutes(services),
    statsRoute(services),
    overviewRoute(services),
    ...approvalRoutes(services),
    ...scheduleRoutes(services),
    ...offeringRoutes(services),
    ...dataRoutes(services),
    ...mcpServerRoutes(services),
    ...skillTransferRoutes(services),
    ...skillRoutes(services),
    ...skillToolRoutes(services),
    ...expertRoutes(services),
    eventRoute(services),
    ...openaiRoutes(services),
    ...extensions.flatMap((extension) => extension.routes(services)),
  ];
  return routes;
}
