import { Tool, type ToolInfo } from "@toolrack/core";
import { failures, type LoadReport, whereOf } from "../load-report.ts";

/** `buildReload_tool` of the toolbox contract: compile, reload, verify, and say what came of it. */
export function buildReloadTool(reload: () => Promise<LoadReport>): ToolInfo {
  return Tool.define({
    name: "buildReload_tool",
    description:
      "Compiles and reloads the tool files of the workspace, and says what was compiled, loaded, removed and " +
      "refused. Call it after a tool file was added or changed; when it succeeds the tool can be called at once. " +
      "编译并重新加载工作区的所有工具文件，并报告结果。",
    parameters: { type: "object", properties: {} },
    metadata: { category: "toolbox", idempotent: true, loop: false },
    execute: async () => {
      const report = await reload();
      const refused = failures(report);
      const { compiled, added, changed, removed, duration } = report;
      const tools = report.files.flatMap((file) => file.tools);
      const summary = {
        success: refused.length === 0,
        build: { success: refused.length === 0, compiled },
        reload: { success: refused.length === 0, tools, added, changed, removed },
        refused,
        warnings: report.files.flatMap(({ file, warnings }) =>
          warnings.map((warning) => `${file}: ${warning}`),
        ),
        duration: Math.round(duration),
      };
      const problems = refused.map((failure) => `${whereOf(failure)}: ${failure.reason} ${failure.remedy}`);
      const text = [...problems, JSON.stringify(summary, null, 2)].join("\n");
      return {
        content: [{ type: "text", text }],
        structuredContent: summary,
        ...(refused.length === 0 ? {} : { isError: true }),
      };
    },
  });
}
