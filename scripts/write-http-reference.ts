import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { JsonSchemaObject } from "@toolrack/core";
import { chatExtension } from "../packages/server/src/chat/routes/completions.ts";
import { startServer } from "../packages/server/src/http/server.ts";
import { httpErrorCodes } from "../packages/server/src/http/wire/errors.ts";
import { openWorkspace } from "../packages/server/src/rack/app.ts";
import { openStore } from "../packages/server/src/store/store.ts";
import { chineseOf } from "./http-reference-chinese.ts";

/** Where each language's page of the HTTP API lives, from the root of the repo. */
export const httpPages = {
  "docs/reference/http.md": () => httpReference(english),
  "docs/zh-CN/reference/http.md": () => httpReference(chinese),
} as const;

/** What the two pages say differently. */
interface Language {
  readonly head: string;
  readonly translate: (text: string) => string;
  readonly routeColumns: readonly string[];
  readonly access: Readonly<Record<"open" | "token" | "admin", string>>;
  readonly errors: string;
  readonly errorColumns: readonly string[];
}

/** The parts of `/openapi.json` that are read here. */
export interface ApiDescription {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, JsonSchemaObject>> };
}

export interface Operation {
  readonly tags: readonly [string];
  readonly summary: string;
  readonly security?: readonly unknown[];
  readonly "x-access"?: "admin";
  readonly parameters?: readonly { readonly name: string; readonly in: "path" | "query" }[];
  readonly responses: Readonly<
    Record<string, { readonly content?: Readonly<Record<string, { readonly schema?: JsonSchemaObject }>> }>
  >;
}

/** `npm run docs:http`: writes the pages of the HTTP API from what a server says of itself. A test keeps the two equal. */
async function main(): Promise<void> {
  for (const [page, write] of Object.entries(httpPages)) {
    writeFileSync(fileURLToPath(new URL(`../${page}`, import.meta.url)), await write());
    console.log(`Wrote ${page}.`);
  }
}

async function httpReference(language: Language): Promise<string> {
  const { translate } = language;
  const { paths } = await describeServer();
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
  );
  const sections = [...Map.groupBy(operations, ({ operation }) => operation.tags[0])].flatMap(
    ([tag, group]) => {
      const rows = group.map(({ path, method, operation }) => [
        `\`${method}\``,
        `\`${path}\``,
        translate(operation.summary),
        queryOf(operation),
        language.access[accessOf(operation)],
      ]);
      return [`## ${tag}`, table(language.routeColumns, rows)];
    },
  );
  const errors = Object.entries(httpErrorCodes).map(([code, { status, when }]) => [
    `\`${code}\``,
    String(status),
    translate(when),
  ]);
  const parts = [language.head, ...sections, language.errors, table(language.errorColumns, errors)];
  return `${parts.join("\n\n")}\n`;
}

/** Asks a server of an empty workspace; the store is its own, whatever database the environment names. */
export async function describeServer(): Promise<ApiDescription> {
  const directory = mkdtempSync(join(tmpdir(), "toolrack-reference-"));
  const logger = { debug() {}, info() {}, warn() {}, error() {} };
  const opened = new AsyncDisposableStack();
  opened.defer(() => rmSync(directory, { recursive: true, force: true }));
  try {
    const store = await openStore({ directory: join(directory, ".toolrack") });
    opened.defer(() => store.close());
    const app = await openWorkspace(directory, { logger });
    opened.defer(() => app.close());
    const server = await startServer({ app, store, logger, port: 0, extensions: [chatExtension()] });
    opened.defer(() => server.close());
    const headers = { authorization: `Bearer ${server.token}` };
    const response = await fetch(`${server.url}/openapi.json`, { headers });
    // The server's own tests check the document; this is the form that it has.
    return (await response.json()) as ApiDescription;
  } finally {
    await opened.disposeAsync();
  }
}

function accessOf(operation: Operation): keyof Language["access"] {
  return operation["x-access"] ?? (operation.security === undefined ? "token" : "open");
}

function queryOf({ parameters = [] }: Operation): string {
  const names = parameters.filter((parameter) => parameter.in === "query").map(({ name }) => `\`${name}\``);
  return names.join(" ");
}

function table(columns: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [columns, ...rows].map((cells) => `| ${cells.join(" | ")} |`);
  return lines.toSpliced(1, 0, `|${columns.map(() => "---").join("|")}|`).join("\n");
}

const english: Language = {
  head: `# HTTP API

<!-- Generated by \`npm run docs:http\` from the server's own description. Do not edit. -->

Every path that [\`toolrack serve\`](../guides/server.md) answers. \`GET /openapi.json\` is the same list as an OpenAPI 3.1
document, with the schemas of all parameters, bodies and answers; requests are checked with those very schemas.

Send \`Authorization: Bearer TOKEN\`, and bodies as \`application/json\`. The last column says which token is needed: none,
any, or one of an admin. A token that is not an admin's sees only the tools it may use and the calls it made.`,
  translate: (text) => text,
  routeColumns: ["method", "path", "purpose", "query", "token"],
  access: { open: "none", token: "any", admin: "admin" },
  errors: `## Errors

A refusal is \`{"error": {"code", "message", "details"}}\` with one of these codes. A tool that ran and failed is no
refusal: the answer is 200 and its \`result.type\` is \`error\`, with a code of [its own](errors.md).`,
  errorColumns: ["code", "status", "when"],
};

const chinese: Language = {
  head: `# HTTP API

<!-- 由 \`npm run docs:http\` 根据服务器自身的描述生成，请勿手工修改。 -->

[\`toolrack serve\`](../guides/server.md) 回答的每个路径。\`GET /openapi.json\` 以 OpenAPI 3.1 文档给出同一份列表，包含所有参数、请求体和回答的 schema；请求正是用这些 schema 检查的。

请发送 \`Authorization: Bearer TOKEN\`，请求体用 \`application/json\`。最后一列说明需要哪种令牌：不需要、任意，或管理员的。非管理员的令牌只能看到它可以使用的工具和用它发起的调用。`,
  translate: chineseOf,
  routeColumns: ["方法", "路径", "用途", "查询", "令牌"],
  access: { open: "不需要", token: "任意", admin: "管理员" },
  errors: `## 错误

拒绝的形式是 \`{"error": {"code", "message", "details"}}\`，代码是下列之一。工具运行后失败不算拒绝：回答是 200，其 \`result.type\` 为 \`error\`，并有[自己的代码](errors.md)。`,
  errorColumns: ["代码", "状态", "何时发生"],
};

if (process.argv[1] === fileURLToPath(import.meta.url)) await main();
