import { compileSchema, type JsonSchemaObject, type ToolInfo } from "@toolrack/core";
import type { App } from "../../index.ts";
import { describeType } from "../arguments/describe-type.ts";
import { exampleCall } from "../arguments/example-call.ts";
import { follow, type Property, parametersOf, propertiesOf } from "../arguments/schema-parts.ts";
import { type Cli, labelOf } from "../cli.ts";
import { exitCodes } from "../exit-codes.ts";
import { talkFailures } from "../file-problems.ts";
import { requireTool } from "../require-tool.ts";
import { manualOf, manualSections } from "../show/manual-sections.ts";
import { oneLine, printable } from "../text/printable.ts";
import { renderTable } from "../text/render-table.ts";
import { toolSummary } from "../tool-summary.ts";
import { withApp } from "../with-app.ts";

/** `toolrack show`: everything about one tool. */
export function show(cli: Cli, name: string): Promise<number> {
  return withApp(cli, {}, async ({ registry, report, sandbox }) => {
    // A tool that is missed may be in one of the files that failed.
    if (registry.get(name) === undefined) talkFailures(cli, report);
    const info = requireTool(registry, name);
    if (cli.json) cli.printJson(asJson(cli, info));
    else for (const part of sections(cli, info, await isolationOf(info, sandbox))) cli.print(part);
    return exitCodes.ok;
  });
}

function asJson(cli: Cli, info: ToolInfo): unknown {
  return {
    ...toolSummary(info),
    parameters: parametersOf(info),
    ...(info.outputSchema === undefined
      ? {}
      : { outputSchema: compileSchema(info.outputSchema).jsonSchema() }),
    metadata: info.metadata,
    example: cli.commandLine(exampleCall(info)),
  };
}

/** How well this machine can keep the tool from doing harm; nothing for one that runs in the server itself. */
async function isolationOf(info: ToolInfo, sandbox: App["sandbox"]): Promise<string | undefined> {
  if (manualOf(info) === undefined) return undefined;
  const { level, reason } = await sandbox();
  return level === 3 ? "sandbox, level 3" : `sandbox, level ${level} (reduced): ${reason ?? ""}`;
}

function sections(cli: Cli, info: ToolInfo, isolation: string | undefined): string[] {
  const title = (text: string) => `\n${cli.style("bold", text)}`;
  const schema = parametersOf(info);
  const label = labelOf(info);
  return [
    cli.style("bold", info.name) + (label === info.name ? "" : `  ${printable(label)}`),
    ...(info.description ? [printable(info.description)] : []),
    "",
    ...renderTable([...facts(info), ...(isolation === undefined ? [] : [["isolation", oneLine(isolation)]])]),
    title("Parameters"),
    parameterTable(cli, schema),
    ...manualSections(info).flatMap(({ title: name, head, rows }) => [
      title(name),
      renderTable(rows, { head, columns: cli.columns, styleHead: (text) => cli.style("dim", text) }).join(
        "\n",
      ),
    ]),
    title("JSON Schema of the parameters"),
    printable(JSON.stringify(schema, null, 2)),
    title("Example"),
    cli.commandLine(exampleCall(info)),
  ];
}

function facts(info: ToolInfo): string[][] {
  const { category, tags, ...rest } = info.metadata;
  const known: [string, unknown][] = [
    ["from", info.origin],
    ["aliases", info.aliases?.join(", ")],
    ["category", category],
    ["tags", tags?.join(", ")],
    ["state", info.disabled ? "disabled" : "enabled"],
    // Schemas are shown in full elsewhere, or with --json; here they would drown the rest.
    ...Object.entries(rest).filter(([, value]) => typeof value !== "object" || Array.isArray(value)),
  ];
  return known
    .filter(([, value]) => value !== undefined && value !== "" && typeof value !== "function")
    .map(([key, value]) => [key, oneLine(typeof value === "string" ? value : String(JSON.stringify(value)))]);
}

function parameterTable(cli: Cli, schema: JsonSchemaObject): string {
  const rows = parameterRows(propertiesOf(follow(schema, schema), schema), schema, "");
  if (rows.length === 0) return "It takes none.";
  const head = ["NAME", "TYPE", "", "DEFAULT", "DESCRIPTION"];
  const styleHead = (text: string) => cli.style("dim", text);
  return renderTable(rows, { head, columns: cli.columns, flexible: 4, styleHead }).join("\n");
}

/** Objects inside are listed by the dotted names under which `call` takes them. */
function parameterRows(
  properties: readonly Property[],
  root: JsonSchemaObject,
  prefix: string,
  depth = 0,
): string[][] {
  return properties.flatMap(({ name, schema, required }) => [
    [
      oneLine(prefix + name),
      oneLine(describeType(schema, root)),
      required ? "required" : "",
      "default" in schema ? oneLine(JSON.stringify(schema.default)) : "",
      oneLine(typeof schema.description === "string" ? schema.description : ""),
    ],
    ...(depth < 3 ? parameterRows(propertiesOf(schema, root), root, `${prefix}${name}.`, depth + 1) : []),
  ]);
}
