import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { apiTypes, apiTypesFile } from "./write-api-types.ts";
import { describeServer } from "./write-http-reference.ts";

it("the console's types of the HTTP API are what the server's own description says", async () => {
  const written = readFileSync(fileURLToPath(new URL(`../${apiTypesFile}`, import.meta.url)), "utf8");
  expect(written, "Run npm run docs:api-types").toBe(apiTypes(await describeServer()));
});
